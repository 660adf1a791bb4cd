"""The tinker engine above a service made of NumPy, with every difference between real services switched on or off."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_service import (
    CONTEXT,
    STOP,
    VOCABULARY,
    Edges,
    FakeService,
    log_softmax,
    packed,
    save_facts,
    table_config,
)

from spadework.engines.base import (
    ContextTooLong,
    Datum,
    EngineFault,
    Sample,
    SamplingParams,
    StaleCohort,
    StopReason,
    TakesWholeSteps,
)
from spadework.engines.tinker.engine import TinkerEngine
from spadework.learning.loss import PolicyLoss
from spadework.learning.objective import clipped_policy_gradient

LOSS = PolicyLoss(0.2, 0.28)
PARAMS = SamplingParams(6, (STOP,), 0)
DATUM = Datum((2, 3, 4), (0.0, 0.5, 0.5), (0.0, -2.0, -2.0), (0.0, 1.0, -1.0))

averages = pytest.mark.parametrize("averages", [True, False], ids=["mean of means", "sum"])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_facts(tmp_path / "model")


def open_fake(model: Path, service: FakeService, backend: str | None = None, **sections: object) -> TinkerEngine:
    backend = backend or ("skyrl-jax" if service.edges.averages else "hosted")
    return TinkerEngine.open(table_config(backend, **sections), service, model)


def some_passes(seed: int = 0) -> list[list[Datum]]:
    """An agent's and a designer's pass: ragged, with gaps, weights of their own, off the policy."""
    draws = np.random.default_rng(seed)
    passes: list[list[Datum]] = []
    for count, weight in ((5, 0.02), (3, 0.3)):
        data = []
        for _ in range(count):
            length = int(draws.integers(3, 20))
            sampled = draws.random(length) < 0.6
            sampled[0], sampled[-1] = False, True
            weights = np.where(sampled, weight * draws.uniform(0.5, 2, length), 0.0)
            data.append(
                Datum(
                    tuple(draws.integers(0, VOCABULARY, length).tolist()),
                    tuple(weights.tolist()),
                    tuple(np.where(sampled, draws.normal(-2.5, 0.7, length), 0.0).tolist()),
                    tuple(np.where(sampled, draws.normal(size=length), 0.0).tolist()),
                )
            )
        passes.append(data)
    return passes


def gradient_by_autograd(table: np.ndarray, passes: list[list[Datum]]) -> tuple[np.ndarray, list[float]]:
    """Of the local engine's objective with respect to the table, and the loss of each pass."""
    logits = torch.tensor(table, requires_grad=True)
    losses = []
    for data in passes:
        loss = torch.zeros((), dtype=torch.float64)
        for datum in data:
            ids = torch.tensor(datum.token_ids_T)
            logprobs = logits[ids[:-1]].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
            old, advantages, weights = (
                torch.tensor(values[1:], dtype=torch.float64)
                for values in (datum.logprobs_T, datum.advantages_T, datum.weights_T)
            )
            loss = loss + clipped_policy_gradient(logprobs, old, advantages, weights, LOSS).loss
        losses.append(float(loss.detach()))
        loss.backward()
    assert logits.grad is not None
    return logits.grad.numpy(), losses


@averages
def test_the_gradient_that_a_service_applies_is_that_of_our_loss(model: Path, averages: bool) -> None:
    service, passes = FakeService(Edges(averages=averages)), some_passes()

    async def run() -> None:
        engine = open_fake(model, service)
        assert isinstance(engine, TakesWholeSteps)
        results, step = await engine.whole_step(passes, LOSS, 1e-2)
        expected, losses = gradient_by_autograd(service.base, passes)
        np.testing.assert_allclose(service.trainers[0].applied[0], expected, atol=1e-12)
        assert [result.loss for result in results] == pytest.approx(losses)
        assert step.grad_norm == pytest.approx(float(np.linalg.norm(expected)))
        assert step.policy_version == engine.policy_version == 1
        assert all(0 < result.clipped_share < 1 and result.grad_norm is None for result in results)
        rows = log_softmax(service.base)
        for data, result in zip(passes, results, strict=True):
            for datum, found in zip(data, result.logprobs, strict=True):
                assert [value != 0 for value in found] == [weight != 0 for weight in datum.weights_T]
                known = [rows[a, b] for a, b in zip(datum.token_ids_T, datum.token_ids_T[1:], strict=False)]
                assert all(not value or value == pytest.approx(k) for value, k in zip(found[1:], known, strict=True))

    asyncio.run(run())


def test_an_average_that_was_not_undone_would_be_seen(model: Path) -> None:
    """The same service, taken for one that sums."""
    service, passes = FakeService(Edges(averages=True)), some_passes()
    asyncio.run(open_fake(model, service, "hosted").whole_step(passes, LOSS, 1e-2))
    expected, _ = gradient_by_autograd(service.base, passes)
    assert np.abs(service.trainers[0].applied[0] - expected).max() > np.abs(expected).max() / 2


def test_gradient_and_step_are_submitted_together(model: Path) -> None:
    service = FakeService()

    async def run() -> None:
        engine = open_fake(model, service)
        await engine.newest_sampler()
        trainer = service.trainers[0]
        answered = trainer._forward_backward

        async def only_after_the_step_came(*args: object) -> object:
            await asyncio.wait_for(trainer.step_submitted.wait(), 5)
            return await answered(*args)  # type: ignore[arg-type]

        trainer._forward_backward = only_after_the_step_came  # type: ignore[method-assign, assignment]
        # The step's answer is computed first here, from no sequence at all.
        trainer.counted = 1
        await engine.whole_step([[DATUM]], LOSS, 1e-2)
        assert service.calls[-2:] == ["forward_backward", "step"]

    asyncio.run(run())


def test_replies_of_a_cohort_are_asked_for_at_once_and_their_seeds_are_apart(model: Path) -> None:
    service = FakeService()

    async def run() -> list[Sample]:
        engine = open_fake(model, service)
        async with engine.cohort(20) as cohort:
            asked = [cohort.sample(member, [2, 3], replace(PARAMS, seed=member)) for member in range(20)]
            return await asyncio.gather(*asked)

    samples = asyncio.run(run())
    assert service.most_at_once == 20
    gaps = np.diff(sorted(service.seeds))
    assert gaps.min() > 1000 and max(service.seeds) < 2**31 and min(service.seeds) >= 0
    rows = log_softmax(service.base)
    for sample in samples:
        path = (3, *sample.token_ids_T)
        expected = [rows[a, b] for a, b in itertools.pairwise(path)]
        assert sample.logprobs_T == pytest.approx(expected)
        assert (sample.stop_reason is StopReason.STOP) == (sample.token_ids_T[-1] == STOP)
    assert {sample.stop_reason for sample in samples} == set(StopReason)


def test_older_weights_are_never_sampled_so_a_service_cannot_bring_them_back(model: Path) -> None:
    service = FakeService(Edges(overwrites=True))

    async def run() -> None:
        engine = open_fake(model, service)
        async with engine.cohort(1) as old:
            await old.sample(0, [2], PARAMS)
            await engine.whole_step([[DATUM]], LOSS, 0.1)
            trained = service.trainers[0].table.copy()
            with pytest.raises(StaleCohort, match="open a new cohort"):
                await old.sample(0, [2], PARAMS)
        async with engine.cohort(1) as new:
            sample = await new.sample(0, [2], PARAMS)
        assert sample.policy_version == 1
        np.testing.assert_array_equal(service.trainers[0].table, trained)

    asyncio.run(run())


def test_one_sampler_serves_all_cohorts_of_the_same_weights(model: Path) -> None:
    service = FakeService()

    async def run() -> None:
        engine = open_fake(model, service)
        for _ in range(3):
            async with engine.cohort(1):
                pass
        assert service.calls.count("sampler") == 1
        await engine.whole_step([[DATUM]], LOSS, 1e-2)
        async with engine.cohort(1):
            pass
        assert service.calls.count("sampler") == 2

    asyncio.run(run())


def test_weights_cannot_change_under_a_reply(model: Path) -> None:
    async def run() -> None:
        engine = open_fake(model, FakeService())
        async with engine.cohort(1) as cohort:
            asked = asyncio.create_task(cohort.sample(0, [2], PARAMS))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="1 replies are still being sampled"):
                await engine.whole_step([[DATUM]], LOSS, 1e-2)
            await asked

    asyncio.run(run())


def test_a_service_that_keeps_the_stop_token_to_itself_is_refused(model: Path) -> None:
    async def run() -> None:
        engine = open_fake(model, FakeService(Edges(drops_stop=True)))
        async with engine.cohort(30) as cohort:
            for member in range(30):
                await cohort.sample(member, [2], replace(PARAMS, seed=member, max_tokens=30))

    with pytest.raises(EngineFault, match="stop token"):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("prompt", "params", "error", "words"),
    [
        ([2] * 35, PARAMS, ContextTooLong, f"of {CONTEXT} tokens"),
        ([2], replace(PARAMS, stop_ids=()), ValueError, "stop_ids is empty"),
        ([VOCABULARY], PARAMS, ValueError, "token ids"),
        ([], PARAMS, ValueError, "token ids"),
        ([2], replace(PARAMS, max_tokens=0), ValueError, "max_tokens"),
    ],
)
def test_requests_that_no_service_checks_are_refused_here(
    model: Path, prompt: list[int], params: SamplingParams, error: type[Exception], words: str
) -> None:
    service = FakeService()

    async def run() -> None:
        async with open_fake(model, service).cohort(1) as cohort:
            with pytest.raises(error, match=words):
                await cohort.sample(0, prompt, params)
        assert "sample" not in service.calls

    asyncio.run(run())


@pytest.mark.parametrize(
    ("datum", "words"),
    [
        (replace(DATUM, temperature=0.7), "datum 1 was sampled at temperature 0.7"),
        (replace(DATUM, advantages_T=(0.0, 1.0)), "differ in length"),
        (replace(DATUM, weights_T=(0.0, -0.5, 0.5)), "negative weight"),
        (replace(DATUM, advantages_T=(0.0, float("nan"), 1.0)), "not finite"),
        (replace(DATUM, logprobs_T=(0.0, float("-inf"), 1.0)), "not finite"),
        (replace(DATUM, token_ids_T=(2, 3, VOCABULARY)), "token ids"),
        (Datum((2,) * 41, (0.0,) * 40 + (1.0,), (0.0,) * 41, (0.0,) * 41), "a sequence has 2 to 40"),
    ],
)
def test_data_that_no_service_checks_are_refused_before_anything_is_sent(model: Path, datum: Datum, words: str) -> None:
    service = FakeService()
    engine = open_fake(model, service)
    for call in (
        lambda: engine.whole_step([[DATUM], [datum]], LOSS, 1e-2),
        lambda: engine.forward_backward([DATUM, datum], LOSS),
        lambda: engine.score([DATUM, datum]),
    ):
        with pytest.raises(ValueError, match=words):
            asyncio.run(call())
    assert service.calls == ["models"]


def test_passes_one_by_one_do_for_a_sum_and_are_refused_for_an_average(model: Path) -> None:
    first, second = some_passes()

    async def apart(engine: TinkerEngine) -> None:
        await engine.forward_backward(first, LOSS)
        await engine.forward_backward(second, LOSS)
        await engine.optim_step(1e-2)

    service = FakeService(Edges(averages=False))
    asyncio.run(apart(open_fake(model, service)))
    expected, _ = gradient_by_autograd(service.base, [first, second])
    np.testing.assert_allclose(service.trainers[0].applied[0], expected, atol=1e-12)
    with pytest.raises(ValueError, match="give all of its passes to whole_step"):
        asyncio.run(apart(open_fake(model, FakeService())))


def test_one_pass_and_a_step_do_for_an_average_as_well(model: Path) -> None:
    service, (data, _) = FakeService(), some_passes()

    async def run() -> None:
        engine = open_fake(model, service)
        with pytest.raises(ValueError, match="forward_backward before"):
            await engine.optim_step(1e-2)
        await engine.forward_backward(data, LOSS)
        with pytest.raises(ValueError, match="save after optim_step"):
            await engine.save(model)
        await engine.optim_step(1e-2)

    asyncio.run(run())
    expected, _ = gradient_by_autograd(service.base, [data])
    np.testing.assert_allclose(service.trainers[0].applied[0], expected, atol=1e-12)


def test_the_optimiser_is_told_everything_that_the_configuration_says(model: Path) -> None:
    service = FakeService(Edges(averages=False, ignores_clip=False))
    learning = {"max_grad_norm": 1e-4, "betas": (0.8, 0.95), "weight_decay": 0.3}
    asyncio.run(open_fake(model, service, learning=learning).whole_step(some_passes(), LOSS, 0.02))
    (adam,) = service.trainers[0].adams
    assert (adam.learning_rate, adam.beta1, adam.beta2, adam.eps) == (0.02, 0.8, 0.95, 1e-8)
    assert (adam.weight_decay, adam.max_grad_norm) == (0.3, 1e-4)
    assert np.linalg.norm(service.trainers[0].applied[0]) == pytest.approx(1e-4)


def test_a_service_that_does_not_tell_the_norm_gives_none(model: Path) -> None:
    service = FakeService(Edges(averages=False, tells_norm=False))
    _, step = asyncio.run(open_fake(model, service).whole_step(some_passes(), LOSS, 0.02))
    assert step.grad_norm is None and step.applied


def test_a_gradient_that_is_not_finite_ends_the_run_because_the_service_applied_it(model: Path) -> None:
    service = FakeService()

    async def run() -> None:
        engine = open_fake(model, service)
        await engine.newest_sampler()
        service.trainers[0].gradient[0, 0] = float("nan")
        await engine.whole_step([[DATUM]], LOSS, 1e-2)

    with pytest.raises(EngineFault, match=r"norm is nan .*continue from the last checkpoint"):
        asyncio.run(run())


@pytest.mark.parametrize("leaves_out_first", [True, False])
def test_the_reference_is_the_base_model(model: Path, leaves_out_first: bool) -> None:
    service = FakeService(Edges(leaves_out_first=leaves_out_first))

    async def run() -> None:
        engine = open_fake(model, service, learning={"kl_coefficient": 0.1})
        before = await engine.score([DATUM])
        await engine.whole_step([[DATUM]], LOSS, 0.1)
        (reference,) = await engine.score([DATUM], reference=True)
        assert reference == pytest.approx(before[0])
        assert (await engine.score([DATUM]))[0] != pytest.approx(before[0])
        rows = log_softmax(service.base)
        assert reference == pytest.approx((0.0, rows[2, 3], rows[3, 4]))

    asyncio.run(run())


def test_a_run_continues_bit_for_bit_and_takes_one_slot(model: Path, tmp_path: Path) -> None:
    service = FakeService(Edges(slots=2))

    async def first() -> np.ndarray:
        engine = open_fake(model, service)
        await engine.whole_step(some_passes(1), LOSS, 1e-2)
        await engine.save(tmp_path / "saved")
        await engine.whole_step(some_passes(2), LOSS, 1e-2)
        return service.trainers[-1].table

    async def second() -> np.ndarray:
        engine = open_fake(model, service)
        await engine.load(tmp_path / "saved")
        assert engine.policy_version == 1
        await engine.whole_step(some_passes(2), LOSS, 1e-2)
        return service.trainers[-1].table

    np.testing.assert_array_equal(asyncio.run(first()), asyncio.run(second()))
    assert len(service.trainers) == 2
    kept = json.loads((tmp_path / "saved" / "tinker.json").read_text())
    assert kept["model"] == "table-1" and kept["policy_version"] == 1
    with pytest.raises(EngineFault, match="no free adapter"):
        asyncio.run(second())


def test_a_cohort_of_before_a_load_is_stale(model: Path, tmp_path: Path) -> None:
    async def run() -> None:
        engine = open_fake(model, FakeService())
        await engine.save(tmp_path)
        async with engine.cohort(1) as cohort:
            await engine.load(tmp_path)
            with pytest.raises(StaleCohort):
                await cohort.sample(0, [2], PARAMS)

    asyncio.run(run())


def test_states_that_no_checkpoint_needs_any_more_are_forgotten(model: Path, tmp_path: Path) -> None:
    service = FakeService()

    async def run() -> None:
        engine = open_fake(model, service, checkpoint={"keep": 2})
        for number in range(5):
            await engine.save(tmp_path / str(number))
        paths = [json.loads((tmp_path / str(n) / "tinker.json").read_text())["path"] for n in range(5)]
        assert list(service.states) == paths[2:]
        service.fails.add("delete")
        await engine.save(tmp_path / "5")
        assert len(service.states) == 4
        service.fails.clear()
        await engine.save(tmp_path / "6")
        assert len(service.states) == 3

    asyncio.run(run())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace('"skyrl-jax"', '"hosted"'), "engine.tinker.backend hosted and not skyrl-jax"),
        (lambda text: text.replace('"format": 1', '"format": 9'), "format 9"),
        (lambda text: text[:20], "cannot be read"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(model: Path, tmp_path: Path, change: object, words: str) -> None:
    async def run() -> None:
        engine = open_fake(model, FakeService())
        await engine.save(tmp_path)
        file = tmp_path / "tinker.json"
        file.write_text(change(file.read_text()))  # type: ignore[operator]
        with pytest.raises(EngineFault, match=words):
            await engine.load(tmp_path)

    asyncio.run(run())


def test_an_exported_adapter_names_its_base_model_and_modules_and_has_the_tokenizer(
    model: Path, tmp_path: Path
) -> None:
    asyncio.run(open_fake(model, FakeService()).export(tmp_path / "out"))
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert config == {
        "r": 2,
        "lora_alpha": 32,
        "target_modules": ["q_proj"],
        "base_model_name_or_path": "table-1",
        "task_type": "CAUSAL_LM",
    }
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "tokenizer.json",
    ]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"config.json": b"{}", "model.safetensors": b"x"}, None),
        ({"optimizer.pt": b"x"}, "neither an adapter nor a model .*optimizer.pt"),
        ({}, "it holds nothing"),
    ],
)
def test_whole_models_are_exported_too_and_anything_else_is_refused(
    model: Path, tmp_path: Path, files: dict[str, bytes], words: str | None
) -> None:
    service = FakeService(archive=packed(files))
    export = open_fake(model, service).export(tmp_path / "out")
    if words is None:
        asyncio.run(export)
        assert (tmp_path / "out" / "model.safetensors").read_bytes() == b"x"
    else:
        with pytest.raises(EngineFault, match=words):
            asyncio.run(export)
    assert not (tmp_path / "out" / "weights.tar").exists()


def test_an_archive_cannot_write_outside_of_the_directory(model: Path, tmp_path: Path) -> None:
    service = FakeService(archive=packed({"../../config.json": b"{}", "/evil": b"x"}))
    asyncio.run(open_fake(model, service).export(tmp_path / "a" / "out"))
    assert sorted(path.name for path in (tmp_path / "a" / "out").iterdir()) == ["config.json", "evil", "tokenizer.json"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"attention_bias": True}, "biases in its layers"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "scaled rotary embedding .yarn"),
        ({"rope_parameters": {"rope_type": "llama3"}, "model_type": "llama"}, "scaled rotary embedding .llama3"),
        ({"use_sliding_window": True}, "a sliding window"),
    ],
)
def test_a_model_that_a_backend_would_compute_wrongly_is_refused(
    model: Path, facts: dict[str, object], words: str
) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "model_type": "qwen3", **facts}))
    with pytest.raises(EngineFault, match=f"{words}.* which the backend skyrl-jax leaves out"):
        open_fake(model, FakeService())
    open_fake(model, FakeService(Edges(averages=False)), "hosted")


def test_an_unknown_model_and_an_unfit_directory_are_told_before_anything_is_created(
    model: Path, tmp_path: Path
) -> None:
    service = FakeService()
    engine = {"kind": "tinker", "tinker": {"backend": "hosted", "model": "gpt-9"}}
    with pytest.raises(EngineFault, match=r"no base model gpt-9 \(engine.tinker.model\); it has table-1"):
        open_fake(model, service, "hosted", engine=engine)
    with pytest.raises(EngineFault, match="at most 40 tokens"):
        TinkerEngine.open(table_config(model={"max_context_tokens": 41}), service, model)
    with pytest.raises(EngineFault, match=r"model\.path must hold"):
        TinkerEngine.open(table_config(), service, tmp_path)
    assert set(service.calls) == {"models"}
