from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tiny_models import SETTINGS, VOCABULARY, open_tiny, save_tiny_model, some_data

from spadework.engines.base import Datum, SamplingParams
from spadework.engines.local import update
from spadework.engines.local.engine import LocalEngine
from spadework.learning.objective import clipped_policy_gradient


def plain_pass(directory: Path, data: list[Datum]) -> tuple[float, list[list[float]], float, float]:
    """Loss, log-probabilities, clipped share and gradient norm, token by token in plain Python and autograd."""
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    loss, rows, clipped, tokens = torch.zeros(()), [], 0, 0
    for datum in data:
        logits = model(torch.tensor([datum.token_ids_T])).logits[0] / datum.temperature
        logprobs = logits.log_softmax(-1)
        row = [0.0] * len(datum.token_ids_T)
        for t, token in enumerate(datum.token_ids_T):
            if not datum.weights_T[t]:
                continue
            new, advantage = logprobs[t - 1, token], datum.advantages_T[t]
            ratio = (new - datum.logprobs_T[t]).exp()
            gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage)
            loss = loss - datum.weights_T[t] * gain
            row[t] = float(new.detach())
            clipped += (ratio > 1.28 and advantage > 0) or (ratio < 0.8 and advantage < 0)
            tokens += 1
        rows.append(row)
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    return float(loss.detach()), rows, clipped / tokens, float(norm)


@pytest.mark.parametrize("train_tokens", [1, 100, 10_000])
def test_loss_logprobs_and_gradient_equal_a_plain_pass(tiny_model: Path, train_tokens: int) -> None:
    data = some_data()
    loss, rows, clipped, norm = plain_pass(tiny_model, data)
    engine = open_tiny(tiny_model, train_tokens=train_tokens)
    found = asyncio.run(engine.forward_backward(data, SETTINGS))
    assert found.loss == pytest.approx(loss, rel=1e-4)
    assert found.grad_norm == pytest.approx(norm, rel=1e-4)
    assert found.clipped_share == pytest.approx(clipped)
    assert 0.05 < clipped < 0.95
    for datum, got, expected, scored in zip(data, found.logprobs, rows, asyncio.run(engine.score(data)), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-4)
        np.testing.assert_allclose(scored, expected, atol=1e-4)
        assert [value == 0 for value in got] == [weight == 0 for weight in datum.weights_T]


@pytest.mark.parametrize("settings", [{}, {"lora_rank": 4}, {"again": True}, {"untied": True}])
def test_every_gradient_equals_that_of_plain_passes_one_sequence_at_a_time(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    directory = save_tiny_model(tmp_path / "model", "qwen3", tied="untied" not in settings)
    data = some_data(12)
    engine = open_tiny(
        directory,
        model={"lora_rank": settings.get("lora_rank", 0)},
        engine={"gradient_checkpointing": "again" in settings},
    )
    model, parameters = engine._model, engine._model.parameters()
    with torch.no_grad():
        for value in parameters.values():
            value.add_(0.05)  # a new adapter's second half is zero, and so are the first half's gradients
    loss, expected = torch.zeros(()), []
    for datum in data:
        ids = torch.tensor([datum.token_ids_T])
        logits = model.network_logits(ids, torch.arange(ids.shape[1])[None])[0] / datum.temperature
        logprobs = torch.zeros(ids.shape[1])
        logprobs[1:] = logits.log_softmax(-1)[:-1].gather(1, ids[0, 1:, None])[:, 0]
        old, advantages, weights = map(torch.tensor, (datum.logprobs_T, datum.advantages_T, datum.weights_T))
        loss = loss + clipped_policy_gradient(logprobs, old, advantages, weights, SETTINGS).loss
        expected.append(np.where(np.array(datum.weights_T) != 0, logprobs.detach().numpy(), 0.0))
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    found = asyncio.run(engine.forward_backward(data, SETTINGS))
    for got, row in zip(found.logprobs, expected, strict=True):
        np.testing.assert_allclose(got, row, atol=1e-5)
    for name, got, wanted in zip(parameters, engine._optimiser._accumulated, gradients, strict=True):
        assert float(wanted.norm()) > 0, name
        assert float((got - wanted).norm()) < 1e-5 * float(wanted.norm()), name


def test_micro_batches_are_cut_where_padding_would_cost_more_than_another_batch() -> None:
    # Together 4 * 900 positions; apart 2 * 900 and 2 * 100, and 256 for the second batch.
    assert update.cuts([900, 900, 100, 100], 4096) == [slice(0, 2), slice(2, 4)]
    # Apart would spare 2 * 50 positions only.
    assert update.cuts([150, 150, 100, 100], 4096) == [slice(0, 4)]
    # The budget allows two rows of 150, and the third is nearer to the fourth.
    assert update.cuts([150, 150, 140, 140], 300) == [slice(0, 2), slice(2, 4)]
    # Longer than the budget.
    assert update.cuts([150, 140], 100) == [slice(0, 1), slice(1, 2)]


def test_no_micro_batch_is_above_the_budget_and_every_sequence_is_in_one() -> None:
    lengths = sorted(np.random.default_rng(0).integers(1, 300, 200).tolist(), reverse=True)
    found = update.cuts(lengths, 1000)
    assert [index for part in found for index in range(part.start, part.stop)] == list(range(200))
    assert all(lengths[part.start] * (part.stop - part.start) <= 1000 for part in found)


def test_small_tables_of_logits_change_nothing(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = asyncio.run(open_tiny(tiny_qwen3).forward_backward(some_data(), SETTINGS))
    monkeypatch.setattr(update, "LOGIT_ELEMENTS", 3 * VOCABULARY)
    monkeypatch.setattr(update, "LOGIT_TOKENS", 1)
    parts = asyncio.run(open_tiny(tiny_qwen3).forward_backward(some_data(), SETTINGS))
    assert parts.grad_norm == pytest.approx(whole.grad_norm, rel=1e-5)
    assert parts.loss == pytest.approx(whole.loss, rel=1e-5)


def test_only_weighted_positions_go_through_the_output_layer(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_tiny(tiny_qwen3)
    data, rows = some_data(), []
    logits = type(engine._model).logits
    monkeypatch.setattr(
        type(engine._model), "logits", lambda self, hidden: rows.append(len(hidden)) or logits(self, hidden)
    )
    asyncio.run(engine.forward_backward(data, SETTINGS))
    assert sum(rows) == sum(weight != 0 for datum in data for weight in datum.weights_T)


def test_only_weighted_positions_go_through_the_last_feed_forward_layer(tiny_model: Path) -> None:
    engine, data = open_tiny(tiny_model), some_data()
    rows: list[list[int]] = [[], []]
    for layer, seen in zip(engine._model._layers, rows, strict=True):
        layer.mlp.gate_proj.register_forward_pre_hook(
            lambda _, inputs, seen=seen: seen.append(inputs[0][..., 0].numel())
        )
    asyncio.run(engine.forward_backward(data, SETTINGS))
    assert sum(rows[1]) == sum(weight != 0 for datum in data for weight in datum.weights_T)
    assert sum(rows[0]) > 2 * sum(rows[1])


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_computing_layers_again_gives_the_same_gradient(tiny_model: Path, lora_rank: int) -> None:
    def gradient(engine: LocalEngine) -> list[torch.Tensor]:
        asyncio.run(engine.forward_backward(some_data(), SETTINGS))
        return engine._optimiser._accumulated

    model = {"lora_rank": lora_rank}
    kept = gradient(open_tiny(tiny_model, model=model))
    again = gradient(open_tiny(tiny_model, model=model, engine={"gradient_checkpointing": True}))
    assert any(bool(part.any()) for part in kept)
    assert all(torch.equal(one, other) for one, other in zip(kept, again, strict=True))


def test_computing_layers_again_keeps_less_for_the_backward_pass(tiny_qwen3: Path) -> None:
    def kept_bytes(engine: LocalEngine) -> int:
        ids = torch.arange(100).view(1, -1) % VOCABULARY
        sizes: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            hidden = engine._model.hidden(ids, torch.arange(100).view(1, -1))
        assert hidden.requires_grad
        return sum(sizes.values())

    again = open_tiny(tiny_qwen3, engine={"gradient_checkpointing": True})
    assert kept_bytes(again) < 0.5 * kept_bytes(open_tiny(tiny_qwen3))


def test_the_sampler_and_the_trainer_agree_at_its_temperature(tiny_model: Path) -> None:
    engine = open_tiny(tiny_model)

    async def run() -> float:
        async with engine.cohort(1) as cohort:
            sample = await cohort.sample(0, [2, 3, 4], SamplingParams(20, (), 5, temperature=0.7))
            cohort.leave(0)
        zeros = (0.0,) * 3
        ones = (1.0,) * len(sample.token_ids_T)
        datum = Datum((2, 3, 4, *sample.token_ids_T), zeros + ones, zeros + sample.logprobs_T, zeros + ones, 0.7)
        (scored,) = await engine.score([datum])
        return float(np.abs(np.subtract(scored, datum.logprobs_T)).max())

    assert asyncio.run(run()) < 1e-4


def test_each_call_reports_the_norm_of_its_own_gradient_and_the_step_applies_the_sum(tiny_qwen3: Path) -> None:
    first, second = some_data(seed=1), some_data(seed=2)

    async def run() -> None:
        apart, together = open_tiny(tiny_qwen3), open_tiny(tiny_qwen3)
        norms = [(await apart.forward_backward(data, SETTINGS)).grad_norm for data in (first, second)]
        alone = (await open_tiny(tiny_qwen3).forward_backward(second, SETTINGS)).grad_norm
        assert norms[1] == alone
        whole = await together.forward_backward(first + second, SETTINGS)
        assert (await apart.optim_step(1e-3)).grad_norm == pytest.approx(whole.grad_norm, rel=1e-5)

    asyncio.run(run())


def test_a_step_equals_adamw_by_hand(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3, max_grad_norm=0.01, weight_decay=0.1, betas=(0.9, 0.98))
    before = {name: value.detach().clone() for name, value in engine._model.parameters().items()}

    async def run() -> tuple[float, dict[str, torch.Tensor]]:
        await engine.forward_backward(some_data(), SETTINGS)
        gradient = dict(zip(before, (part.clone() for part in engine._optimiser._accumulated), strict=True))
        step = await engine.optim_step(0.01)
        assert step.applied and step.policy_version == 1
        return step.grad_norm, gradient

    norm, gradient = asyncio.run(run())
    assert norm > 0.01
    for name, value in engine._model.parameters().items():
        clipped = gradient[name] * (0.01 / norm)
        decay = 0.1 if value.ndim == 2 else 0.0
        # The first step's bias-corrected moments are the gradient and its square.
        expected = before[name] * (1 - 0.01 * decay) - 0.01 * clipped / (clipped.abs() + 1e-8)
        torch.testing.assert_close(value.detach(), expected, atol=1e-5, rtol=1e-4)


def test_training_moves_probability_towards_what_was_rewarded(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3)

    async def run() -> tuple[float, float]:
        datum = Datum((2, 3, 4, 5), (0.0, 0.0, 0.5, 0.5), (0.0,) * 4, (0.0, 0.0, 1.0, -1.0))
        (before,) = await engine.score([datum])
        for _ in range(3):
            (now,) = await engine.score([datum])
            await engine.forward_backward([replace(datum, logprobs_T=now)], SETTINGS)
            await engine.optim_step(1e-3)
        (after,) = await engine.score([datum])
        return after[2] - before[2], after[3] - before[3]

    good, bad = asyncio.run(run())
    assert good > 0 > bad


def test_a_gradient_that_is_not_finite_is_refused_and_everything_stays(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3)

    async def run() -> None:
        await engine.forward_backward(some_data(), SETTINGS)
        await engine.optim_step(1e-3)
        checksum, moments = await engine.weight_checksum(), engine._optimiser.state()
        poisoned = replace(some_data()[0], advantages_T=(float("nan"),) * len(some_data()[0].token_ids_T))
        await engine.forward_backward(some_data(), SETTINGS)
        await engine.forward_backward([poisoned], SETTINGS)
        step = await engine.optim_step(1e-3)
        assert (step.applied, step.policy_version) == (False, 1)
        assert await engine.weight_checksum() == checksum
        assert all(torch.equal(value, moments[name]) for name, value in engine._optimiser.state().items())
        with pytest.raises(ValueError, match="forward_backward before"):
            await engine.optim_step(1e-3)

    asyncio.run(run())


def test_equal_calls_give_equal_bits(tiny_qwen3: Path) -> None:
    async def run(engine: LocalEngine) -> str:
        for seed in range(3):
            await engine.forward_backward(some_data(seed=seed), SETTINGS)
            await engine.optim_step(1e-3)
        return await engine.weight_checksum()

    assert asyncio.run(run(open_tiny(tiny_qwen3))) == asyncio.run(run(open_tiny(tiny_qwen3)))


def test_reference_scores_are_those_of_the_start(tiny_qwen3: Path) -> None:
    async def run() -> None:
        engine = open_tiny(tiny_qwen3, kl_coefficient=0.01)
        before = await engine.score(some_data())
        await engine.forward_backward(some_data(), SETTINGS)
        await engine.optim_step(1e-2)
        assert await engine.score(some_data(), reference=True) == before
        assert await engine.score(some_data()) != before
        with pytest.raises(ValueError, match="kl_coefficient"):
            await open_tiny(tiny_qwen3).score(some_data(), reference=True)

    asyncio.run(run())


def test_a_learning_rate_too_small_for_float32_shows_in_the_unchanged_weights(tiny_qwen3: Path) -> None:
    async def unchanged(learning_rate: float) -> float:
        engine = open_tiny(tiny_qwen3, weight_decay=0.0)
        for _ in range(10):
            await engine.forward_backward(some_data(), SETTINGS)
            await engine.optim_step(learning_rate)
        count = await engine.count_unchanged_weights()
        assert (await engine.count_unchanged_weights()).unchanged == count.total
        return count.unchanged / count.total

    assert asyncio.run(unchanged(1e-12)) > 0.9
    assert asyncio.run(unchanged(1e-3)) < 0.3


GOOD = Datum((2, 3), (0.0, 1.0), (0.0, -1.0), (0.0, 1.0))


@pytest.mark.parametrize(
    ("datum", "message"),
    [
        (replace(GOOD, weights_T=(1.0, 1.0)), "first token"),
        (replace(GOOD, weights_T=(0.0, 0.0)), "first token"),
        (replace(GOOD, weights_T=(0.0,)), "length"),
        (replace(GOOD, token_ids_T=(2, 60)), "outside"),
        (replace(GOOD, temperature=0.0), "temperature"),
        (Datum((2,) * 201, (0.0,) + (1.0,) * 200, (0.0,) * 201, (0.0,) * 201), "201 tokens"),
    ],
)
def test_malformed_data_are_named_and_nothing_is_accumulated(tiny_qwen3: Path, datum: Datum, message: str) -> None:
    engine = open_tiny(tiny_qwen3)
    with pytest.raises(ValueError, match=f"datum 1.*{message}"):
        asyncio.run(engine.forward_backward([GOOD, datum], SETTINGS))
    with pytest.raises(ValueError, match="no data"):
        asyncio.run(engine.forward_backward([], SETTINGS))
    assert not engine._optimiser.has_gradient
