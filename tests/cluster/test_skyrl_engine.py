"""The tinker engine against a real SkyRL server (JAX backend, CPU), compared with the local engine's code."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lora_by_hand import LocalWithAdapter, read_adapter
from skyrl_world import ALPHA, CONTEXT, RANK, SLOTS, Server, tinker_config

from spadework.config import EngineConfig, LearningConfig, ModelConfig
from spadework.engines.base import Datum, EngineFault, Sample, SamplingParams, StaleCohort, StopReason
from spadework.engines.local.engine import LocalEngine
from spadework.engines.open import notes_of, open_engine
from spadework.engines.tinker.engine import TinkerEngine
from spadework.learning.loss import PolicyLoss

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

STOP = (2,)
LOSS = PolicyLoss(0.2, 0.28)
RATE = 2e-3


def open_tinker(server: Server, **sections: object) -> TinkerEngine:
    engine = open_engine(tinker_config(server.url, server.model, **sections), server.model)
    assert isinstance(engine, TinkerEngine)
    return engine


def open_local(server: Server) -> LocalEngine:
    model = ModelConfig(path=str(server.model), max_context_tokens=CONTEXT)
    return LocalEngine.open(server.model, EngineConfig(threads=1), model, LearningConfig())


async def replies(engine: TinkerEngine, count: int = 12, first_seed: int = 0) -> list[Sample]:
    async with engine.cohort(count) as cohort:
        asked = [cohort.sample(m, prompt(m), SamplingParams(16, STOP, first_seed + m)) for m in range(count)]
        found = await asyncio.gather(*asked)
        for member in range(count):
            cohort.leave(member)
    return found


def prompt(member: int) -> list[int]:
    return [1, 40 + member, 300, 17 * (member + 3), 2, 1]


def data_of(samples: list[Sample], *, off_policy: float = 0.0) -> list[Datum]:
    """Two passes' worth: ragged replies, each with an advantage, some far enough off the policy for the clip to act."""
    draws = np.random.default_rng(3)
    data = []
    for member, sample in enumerate(samples):
        known, length = prompt(member), len(sample.token_ids_T)
        old = np.asarray(sample.logprobs_T) + draws.normal(0, off_policy, length)
        advantage = float(draws.normal())
        data.append(
            Datum(
                (*known, *sample.token_ids_T),
                (0.0,) * len(known) + (0.01 * (1 + member % 3),) * length,
                (0.0,) * len(known) + tuple(old.tolist()),
                (0.0,) * len(known) + (advantage,) * length,
            )
        )
    # Replies of one length would not tell a mean over tokens from a mean over sequences.
    return [cut(datum, 6 + 2 + index % 9) for index, datum in enumerate(data)]


def cut(datum: Datum, length: int) -> Datum:
    return replace(
        datum,
        token_ids_T=datum.token_ids_T[:length],
        weights_T=datum.weights_T[:length],
        logprobs_T=datum.logprobs_T[:length],
        advantages_T=datum.advantages_T[:length],
    )


def worst(one: object, other: object) -> float:
    rows = zip(one, other, strict=True)  # type: ignore[call-overload]
    return max(float(np.abs(np.subtract(a, b)).max()) for a, b in rows)


def test_a_fresh_adapter_samples_and_scores_as_the_local_engine_does(server: Server) -> None:
    async def run() -> None:
        engine, local = open_tinker(server), open_local(server)
        samples = await replies(engine)
        again = await replies(engine)
        assert [one.token_ids_T for one in samples] == [one.token_ids_T for one in again], "seeds name the draws"
        assert len({one.token_ids_T for one in samples}) > 6
        for sample in samples:
            assert (sample.stop_reason is StopReason.STOP) == (sample.token_ids_T[-1] in STOP)
            assert sample.policy_version == 0
        data = data_of(samples)
        scored = await local.score(data)
        assert worst(scored, [datum.logprobs_T for datum in data]) < 1e-4, "what the service said while it sampled"
        assert worst(scored, await engine.score(data)) < 1e-4
        assert worst(scored, await engine.score(data, reference=True)) < 1e-4

    asyncio.run(run())


def test_two_steps_equal_the_local_update_code_with_the_same_adapter(server: Server, tmp_path: Path) -> None:
    """Norm of each gradient, loss and clipped share of each pass, what AdamW makes of the adapter, log-probabilities.

    AdamW divides each number's gradient by its own size, so that one which is only rounding error moves the adapter as
    much as any other: numbers are compared where the gradient is more than that, log-probabilities within some percent
    of how far they moved.
    """

    async def run() -> None:
        engine = open_tinker(server)
        data = data_of(await replies(engine), off_policy=0.3)
        passes = [data[:5], data[5:]]
        await engine.export(tmp_path / "before")
        local = LocalWithAdapter(server.model, tmp_path / "before", context=CONTEXT, alpha=ALPHA)
        learning = tinker_config(server.url, server.model).learning
        adam = torch.optim.AdamW(
            local.parameters(), lr=RATE, betas=learning.betas, eps=1e-8, weight_decay=learning.weight_decay
        )
        before = local.score(data)
        results, step = await engine.whole_step(passes, LOSS, RATE)
        norm = local.gradient(passes, LOSS)
        assert step.grad_norm == pytest.approx(norm, rel=1e-3), "the service's mean of means is our weighted sum"
        plain = open_local(server)
        for result, part in zip(results, passes, strict=True):
            expected = await plain.forward_backward(part, LOSS)
            assert result.loss == pytest.approx(expected.loss, rel=1e-3)
            assert result.clipped_share == pytest.approx(expected.clipped_share)
            assert 0 < result.clipped_share < 1
            assert worst(result.logprobs, expected.logprobs) < 1e-4
        gradients = {name: (one.a.grad, one.b.grad) for name, one in local.adapters.items()}
        largest = max(float(part.abs().max()) for pair in gradients.values() for part in pair)
        adam.step()
        await engine.export(tmp_path / "after")
        compared, total, off = 0, 0, 0.0
        for name, parts in read_adapter(tmp_path / "after").items():
            for theirs, ours, gradient in zip(parts, local.adapters[name].pair(), gradients[name], strict=True):
                clear = gradient.abs() > 1e-3 * largest
                compared, total = compared + int(clear.sum()), total + int((gradient != 0).sum())
                off = max([off, *(theirs - ours)[clear].abs().tolist()])
        assert compared > total / 2 > 1000 and off < 0.01 * RATE, (compared, total, off)

        async def apart() -> float:
            theirs, ours = await engine.score(data), local.score(data)
            return worst(theirs, ours) / worst(ours, before)

        assert (first := await apart()) < 0.03, first
        _, step = await engine.whole_step(passes, LOSS, RATE)
        assert step.grad_norm == pytest.approx(local.gradient(passes, LOSS), rel=0.03) and step.policy_version == 2
        adam.step()
        assert (second := await apart()) < 0.05, second

    asyncio.run(run())


def test_the_exported_adapter_gives_the_probabilities_that_the_service_gives(server: Server, tmp_path: Path) -> None:
    async def run() -> None:
        engine = open_tinker(server)
        data = data_of(await replies(engine))
        await engine.whole_step([data], LOSS, 5e-3)
        await engine.export(tmp_path)
        config = json.loads((tmp_path / "adapter_config.json").read_text())
        assert config["r"] == RANK and config["base_model_name_or_path"] == str(server.model)
        assert set(config["target_modules"]) >= {"q_proj", "v_proj", "down_proj"}
        assert (tmp_path / "tokenizer.json").is_file() and not (tmp_path / "weights.tar").exists()
        local = LocalWithAdapter(server.model, tmp_path, context=CONTEXT, alpha=ALPHA)
        now = await engine.score(data)
        assert worst(now, local.score(data)) < 1e-3
        assert worst(now, [datum.logprobs_T for datum in data]) > 1e-2, "the step has moved them"

    asyncio.run(run())


def test_only_the_newest_weights_are_ever_sampled(server: Server) -> None:
    async def run() -> None:
        engine = open_tinker(server)
        data = data_of(await replies(engine))
        async with engine.cohort(1) as stale:
            await engine.whole_step([data], LOSS, 5e-3)
            with pytest.raises(StaleCohort):
                await stale.sample(0, prompt(0), SamplingParams(16, STOP, 0))
        trained = await engine.score(data)
        newer = await replies(engine, first_seed=50)
        assert {one.policy_version for one in newer} == {1}
        assert worst(await engine.score(data), trained) < 1e-6, "sampling did not bring older weights back"
        fresh = data_of(newer)
        assert worst(await engine.score(fresh), [datum.logprobs_T for datum in fresh]) < 1e-4

    asyncio.run(run())


def test_the_weight_decay_of_one_run_reaches_the_adapters_of_others_as_is_said_at_the_start(server: Server) -> None:
    async def run() -> list[float]:
        moved = []
        mine = open_tinker(server)
        data = data_of(await replies(mine))
        await mine.whole_step([data], LOSS, 5e-3)
        for decay in (0.0, 20.0):
            before = await mine.score(data)
            other = open_tinker(server, learning={"weight_decay": decay})
            await other.whole_step([data], LOSS, 5e-3)
            moved.append(worst(await mine.score(data), before))
        return moved

    assert notes_of(tinker_config(server.url, server.model)), "this is what is said"
    without, decayed = asyncio.run(run())
    assert without == 0.0 and decayed > 1e-3


def test_a_run_continues_from_its_state_also_after_the_server_was_killed(server: Server, tmp_path: Path) -> None:
    async def steps(engine: TinkerEngine, data: list[Datum]) -> tuple[tuple[float, ...], ...]:
        for _ in range(2):
            await engine.whole_step([data], LOSS, RATE)
        return await engine.score(data)

    async def before() -> tuple[list[Datum], tuple[tuple[float, ...], ...], TinkerEngine]:
        engine = open_tinker(server)
        data = data_of(await replies(engine))
        await engine.whole_step([data], LOSS, RATE)
        await engine.save(tmp_path)
        return data, await steps(engine, data), engine

    async def gone(engine: TinkerEngine, data: list[Datum]) -> str:
        waiting = asyncio.create_task(engine.score(data))
        await asyncio.sleep(0)
        server.kill()
        with pytest.raises(EngineFault) as raised:
            await waiting
        return str(raised.value)

    async def after(data: list[Datum]) -> tuple[int, tuple[tuple[float, ...], ...]]:
        engine = open_tinker(server)
        await engine.load(tmp_path)
        return engine.policy_version, await steps(engine, data)

    data, expected, engine = asyncio.run(before())
    sentence = asyncio.run(gone(engine, data))
    assert server.url in sentence and "could not be reached for 8 s" in sentence and "continue" in sentence
    with pytest.raises(EngineFault, match="no server answers"):
        open_tinker(server)
    server.start()
    version, found = asyncio.run(after(data))
    assert version == 1
    # The moments of AdamW came back as well: steps two and three would differ without them.
    assert worst(found, expected) < 1e-6


def test_the_server_forgets_states_that_no_checkpoint_needs(server: Server, tmp_path: Path) -> None:
    async def run() -> None:
        engine = open_tinker(server, checkpoint={"keep": 1})
        for number in range(3):
            await engine.save(tmp_path / str(number))
        await engine.load(tmp_path / "1")
        with pytest.raises(EngineFault, match=r"the state tinker://.* and refused"):
            await engine.load(tmp_path / "0")
        # A load that was refused leaves the engine as it was.
        await engine.newest_sampler()

    asyncio.run(run())


def test_a_model_that_the_server_does_not_serve_is_named(server: Server) -> None:
    settings = tinker_config(server.url, server.model).engine.tinker.model_dump()
    engine = {"kind": "tinker", "tinker": {**settings, "model": "Qwen/Qwen3-8B"}}
    with pytest.raises(EngineFault, match=r"no base model Qwen/Qwen3-8B .*it has .*model"):
        open_tinker(server, engine=engine)


def test_a_server_without_a_free_slot_says_so(server: Server) -> None:
    async def run() -> None:
        engines = [open_tinker(server) for _ in range(SLOTS)]
        with pytest.raises(EngineFault, match=r"no free adapter \(Maximum number of LoRA adapters \(14\) reached\)"):
            for engine in engines:
                await engine.newest_sampler()

    asyncio.run(run())
