from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from tiny_models import SETTINGS, open_tiny, some_data

from spadework.config import EngineConfig
from spadework.engines.base import Datum, SamplingParams
from spadework.engines.local import sampling, update
from spadework.engines.local.draws import Drawn
from spadework.engines.local.engine import LocalEngine
from spadework.engines.local.kvcache import BatchCache, MemberCache
from spadework.engines.local.memory import OutOfMemory, explained
from spadework.engines.local.placement import DeviceUnavailable, Placement, place
from spadework.engines.local.sampling import Sampler

BFLOAT16 = {"device": "cpu", "dtype": "bfloat16"}

without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="asks for a GPU that is not there")


@without_cuda
def test_a_device_that_is_not_there_is_one_sentence_with_the_remedy(tiny_qwen3: Path) -> None:
    with pytest.raises(DeviceUnavailable, match=r"engine\.device is cuda, but .*engine\.device=cpu") as caught:
        open_tiny(tiny_qwen3, engine={"device": "cuda"})
    assert "\n" not in str(caught.value)
    if not torch.backends.mps.is_available():
        with pytest.raises(DeviceUnavailable, match=r"engine\.device is mps, but .* set engine\.device=auto or cpu"):
            open_tiny(tiny_qwen3, engine={"device": "mps"})


def test_automatic_takes_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    bf16 = True
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "an old GPU")
    for cuda, mps, expected in (
        (False, False, Placement(torch.device("cpu"), torch.float32)),
        (False, True, Placement(torch.device("mps"), torch.float32)),
        (True, False, Placement(torch.device("cuda"), torch.bfloat16)),
    ):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        assert place("auto", "auto") == expected
        assert place("cpu", "auto") == Placement(torch.device("cpu"), torch.float32)
    assert place("cuda", "float32") == Placement(torch.device("cuda"), torch.float32)
    bf16 = False
    assert place("cuda", "auto") == Placement(torch.device("cuda"), torch.float32)
    with pytest.raises(DeviceUnavailable, match=r"an old GPU has no bfloat16; set engine\.dtype=float32"):
        place("cuda", "bfloat16")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(DeviceUnavailable, match=r"engine\.dtype=auto"):
        place("mps", "bfloat16")


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_the_sampler_and_the_trainer_agree_in_bfloat16(tiny_model: Path, lora_rank: int) -> None:
    engine = open_tiny(tiny_model, engine=BFLOAT16, model={"lora_rank": lora_rank})
    assert engine._model.dtype is torch.bfloat16

    async def run() -> None:
        async with engine.cohort(1) as cohort:
            sample = await cohort.sample(0, [2, 3, 4], SamplingParams(20, (), 5))
            cohort.leave(0)
        zeros, ones = (0.0,) * 3, (1.0,) * 20
        datum = Datum((2, 3, 4, *sample.token_ids_T), zeros + ones, zeros + sample.logprobs_T, zeros + ones)
        (scored,) = await engine.score([datum])
        # Eight bits of every logit, of about the size one.
        assert np.abs(np.subtract(scored, datum.logprobs_T)).max() < 0.1

    asyncio.run(run())


def test_bfloat16_weights_are_rounded_from_float32_ones_that_steps_add_up_in(tiny_qwen3: Path) -> None:
    """Each of the steps is far below the resolution of bfloat16 (2^-8 of a weight); all of them are not."""

    async def run() -> None:
        engine = open_tiny(tiny_qwen3, engine=BFLOAT16, weight_decay=0.0)
        name = "model.layers.0.self_attn.q_proj.weight"
        start = engine._model.parameters()[name].detach().clone()
        datum = Datum((2, 3, 4, 5), (0.0, 0.0, 1.0, 1.0), (0.0,) * 4, (0.0, 0.0, 1.0, 1.0))
        for _ in range(50):
            await engine.forward_backward([datum], SETTINGS)
            await engine.optim_step(2e-5)
        weight, master = engine._model.parameters()[name], engine._optimiser.weights[name]
        assert master.dtype is torch.float32
        assert torch.equal(master.bfloat16(), weight)
        moved = (master - start.float()).abs()
        assert 2e-4 < float(moved.detach().median()) < 2e-3
        assert 0.02 < float((weight != start).float().mean()) < 0.98

    asyncio.run(run())


def test_the_gradient_of_bfloat16_weights_is_summed_in_float32(tiny_qwen3: Path) -> None:
    async def norm(count: int) -> float:
        engine = open_tiny(tiny_qwen3, engine=BFLOAT16, train_tokens=1)
        found = await engine.forward_backward(some_data(1) * count, SETTINGS)
        assert found.grad_norm is not None
        return found.grad_norm

    # In bfloat16 a sum of equal parts stops growing at 256 of them, and is off by then.
    assert asyncio.run(norm(400)) == pytest.approx(400 * asyncio.run(norm(1)), rel=1e-4)


def test_a_bfloat16_run_that_was_saved_half_way_equals_one_that_was_not(tiny_qwen3: Path, tmp_path: Path) -> None:
    async def steps(engine: LocalEngine, seeds: range) -> None:
        for seed in seeds:
            await engine.forward_backward(some_data(seed=seed), SETTINGS)
            await engine.optim_step(1e-3)

    async def run() -> None:
        straight, first, second = (open_tiny(tiny_qwen3, engine=BFLOAT16) for _ in range(3))
        await steps(straight, range(4))
        await steps(first, range(2))
        await first.save(tmp_path / "half")
        await second.load(tmp_path / "half")
        await steps(second, range(2, 4))
        assert await second.weight_checksum() == await straight.weight_checksum()
        assert await second.score(some_data()) == await straight.score(some_data())
        await second.export(tmp_path / "export")

    asyncio.run(run())
    assert {value.dtype for value in load_file(tmp_path / "half" / "weights.safetensors").values()} == {torch.float32}
    assert transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "export").dtype is torch.bfloat16


def full(*_: object, **__: object) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has …")


def test_when_memory_ends_the_setting_to_lower_is_named(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_tiny(tiny_qwen3, sample_batch=37, train_tokens=99)
    monkeypatch.setattr(Sampler, "generate", full)
    monkeypatch.setattr(update, "backward", full)
    monkeypatch.setattr(update, "score", full)

    async def run() -> None:
        async with engine.cohort(1) as cohort:
            with pytest.raises(OutOfMemory, match=r"lower engine\.sample_batch \(now 37\)"):
                await cohort.sample(0, [2, 3], SamplingParams(3, (), 0))
            cohort.leave(0)
        for work in (engine.forward_backward(some_data(), SETTINGS), engine.score(some_data())):
            with pytest.raises(OutOfMemory, match=r"engine\.train_tokens \(now 99\) or set engine\.gradient_check"):
                await work

    asyncio.run(run())


@without_cuda
def test_a_budget_of_no_tokens_takes_what_suits_the_device(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert EngineConfig().train_tokens == 0
    assert EngineConfig().train_tokens_on("cpu") == 2048
    assert [EngineConfig().train_tokens_on(device) for device in ("cuda", "mps")] == [16_384, 16_384]
    assert EngineConfig(train_tokens=7).train_tokens_on("cuda") == 7
    engine = open_tiny(tiny_qwen3, train_tokens=0)
    monkeypatch.setattr(update, "backward", full)
    with pytest.raises(OutOfMemory, match=r"engine\.train_tokens \(now 2048\)"):
        asyncio.run(engine.forward_backward(some_data(), SETTINGS))


def test_a_model_that_does_not_fit_says_so(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", full)
    with pytest.raises(OutOfMemory, match=r"weights .* set model\.lora_rank .* smaller model"):
        open_tiny(tiny_qwen3)


def test_what_torch_says_when_the_cpu_is_full_is_understood_and_other_faults_pass() -> None:
    with (
        pytest.raises(OutOfMemory, match="not enough memory for a giant; be modest"),
        explained("a giant", "be modest"),
    ):
        torch.empty(1 << 60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="size of tensor"), explained("a giant", "be modest"):
        torch.ones(2) + torch.ones(3)


def test_tensors_are_made_where_the_model_is(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device `meta` has no numbers, but refuses as a GPU does to compute with tensors of the CPU."""
    engine = open_tiny(tiny_qwen3, model={"lora_rank": 2})
    meta = torch.device("meta")
    engine._model.network.to(meta)
    shape = replace(engine._cache_shape, device=meta)
    monkeypatch.setattr(
        sampling, "draw", lambda logits, *_: Drawn(torch.full((len(logits),), 7), torch.zeros(len(logits)))
    )
    known = MemberCache(np.array([2, 3]), shape.zeros(shape.layers, 2, shape.heads, 2, shape.width))
    requests = [
        sampling.Request(np.arange(2, 2 + size), SamplingParams(budget, (), 0), cache)
        for size, budget, cache in ((3, 5, shape.empty()), (6, 70, known), (9, 70, known))
    ]
    replies = sampling._Generation(engine._model, BatchCache(shape), requests).run()
    assert [len(reply.token_ids_T) for reply in replies] == [5, 70, 70]
    assert replies[1].cache.keys_values_LXHTD.shape[3] == 6 + 69
    (batch,) = update.micro_batches(some_data(2), 10_000, meta)
    with engine._model.last_layer_at(batch.flat_N):
        hidden = update._weighted_hidden(engine._model, batch)
    (part,) = update._parts(engine._model, batch)
    logits = engine._model.logits(hidden[part])
    logprobs, sums = update._shares(logits.detach(), batch, part)
    slope = logprobs * batch.old_N * batch.advantages_N * batch.weights_N
    logits.backward(update._gradient(logits.detach(), sums, slope, batch, part))
    assert all(value.grad is not None and value.grad.device == meta for value in engine._model.parameters().values())
