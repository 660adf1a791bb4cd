from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tiny_models import VOCABULARY, open_tiny

from spadework.engines.base import Sample, SamplingParams, StopReason
from spadework.engines.local.engine import LocalEngine
from spadework.engines.local.model import Model

STOP = 1


async def play(
    engine: LocalEngine, members: int, turns: int, *, temperature: float = 1.0, delays: bool = False
) -> list[list[tuple[list[int], Sample]]]:
    """Ragged episodes: member m starts with 3 + 5m tokens, sees m + 1 new ones per turn, and leaves after its turns."""

    async def member(cohort, number: int) -> list[tuple[list[int], Sample]]:
        draws = np.random.Generator(np.random.Philox(key=number))
        stream = draws.integers(2, VOCABULARY, 3 + 5 * number).tolist()
        seen = []
        try:
            for turn in range(max(1, turns - number % 2)):
                if delays:
                    await asyncio.sleep(0.01 * ((number * 7 + turn * 3) % 5))
                params = SamplingParams(4 + number % 3, (STOP,), seed=1000 * number + turn, temperature=temperature)
                sample = await cohort.sample(number, stream, params)
                seen.append((list(stream), sample))
                stream = stream + list(sample.token_ids_T) + draws.integers(2, VOCABULARY, number + 1).tolist()
        finally:
            cohort.leave(number)
        return seen

    async with engine.cohort(members) as cohort:
        return await asyncio.gather(*(member(cohort, number) for number in range(members)))


def plain_logprobs(directory: Path, prompt: list[int], reply: tuple[int, ...], temperature: float) -> list[float]:
    """By the model as anybody would load it: one full forward pass, no cache, no padding."""
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    ids = torch.tensor([prompt + list(reply)])
    with torch.no_grad():
        logprobs = (model(ids, use_cache=False).logits[0] / temperature).log_softmax(-1)
    return [float(logprobs[len(prompt) + t - 1, token]) for t, token in enumerate(reply)]


def test_ragged_multi_turn_logprobs_equal_a_plain_forward_pass(tiny_model: Path) -> None:
    engine = open_tiny(tiny_model)
    for temperature in (1.0, 0.7):
        for seen in asyncio.run(play(engine, members=7, turns=3, temperature=temperature)):
            for prompt, sample in seen:
                expected = plain_logprobs(tiny_model, prompt, sample.token_ids_T, temperature)
                np.testing.assert_allclose(sample.logprobs_T, expected, atol=1e-4)


def test_timing_changes_nothing(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3, sample_batch=3)
    at_once = asyncio.run(play(engine, members=7, turns=3))
    assert asyncio.run(play(engine, members=7, turns=3, delays=True)) == at_once
    assert asyncio.run(play(open_tiny(tiny_qwen3, sample_batch=3), members=7, turns=3)) == at_once


def test_tokens_of_a_row_do_not_depend_on_the_rows_beside_it(tiny_qwen3: Path) -> None:
    wide, narrow = open_tiny(tiny_qwen3, sample_batch=512), open_tiny(tiny_qwen3, sample_batch=1)
    for seen, alone in zip(
        asyncio.run(play(wide, members=7, turns=3)), asyncio.run(play(narrow, members=7, turns=3)), strict=True
    ):
        assert [(prompt, s.token_ids_T) for prompt, s in seen] == [(prompt, s.token_ids_T) for prompt, s in alone]


async def one(engine: LocalEngine, prompt: list[int], params: SamplingParams) -> Sample:
    async with engine.cohort(1) as cohort:
        sample = await cohort.sample(0, prompt, params)
        cohort.leave(0)
        return sample


def test_seeds_name_the_draws(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3)
    samples = [asyncio.run(one(engine, [2, 3, 4], SamplingParams(12, (), seed))) for seed in (1, 1, 2)]
    assert samples[0] == samples[1]
    assert samples[0].token_ids_T != samples[2].token_ids_T


def test_drawn_tokens_have_the_models_distribution(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3)
    size = 2000

    async def firsts() -> list[int]:
        async with engine.cohort(size) as cohort:

            async def member(number: int) -> int:
                sample = await cohort.sample(number, [5, 6, 7], SamplingParams(1, (), number, temperature=0.7))
                cohort.leave(number)
                return sample.token_ids_T[0]

            return await asyncio.gather(*map(member, range(size)))

    counts = np.bincount(asyncio.run(firsts()), minlength=VOCABULARY)
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny_qwen3, dtype=torch.float32)
    with torch.no_grad():
        expected = (model(torch.tensor([[5, 6, 7]])).logits[0, -1].double() / 0.7).softmax(-1).numpy() * size
    # Pearson's statistic over tokens expected often enough: its mean is their number, its variance twice that.
    often = expected >= 5
    statistic = ((counts - expected)[often] ** 2 / expected[often]).sum()
    assert statistic < often.sum() + 5 * np.sqrt(2 * often.sum())


def test_greedy_takes_the_most_probable_token_and_reports_temperature_one(tiny_qwen3: Path) -> None:
    sample = asyncio.run(one(open_tiny(tiny_qwen3), [5, 6, 7], SamplingParams(6, (), 0, temperature=0.0)))
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny_qwen3, dtype=torch.float32)
    stream = [5, 6, 7]
    for token in sample.token_ids_T:
        with torch.no_grad():
            assert token == int(model(torch.tensor([stream])).logits[0, -1].argmax())
        stream.append(token)
    expected = plain_logprobs(tiny_qwen3, [5, 6, 7], sample.token_ids_T, 1.0)
    np.testing.assert_allclose(sample.logprobs_T, expected, atol=1e-4)


def test_a_stop_token_ends_the_reply_and_is_its_last(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3)
    free = asyncio.run(one(engine, [2, 3], SamplingParams(10, (), 3)))
    assert (len(free.token_ids_T), free.stop_reason) == (10, StopReason.LENGTH)
    stop = free.token_ids_T[4]
    length = free.token_ids_T.index(stop) + 1
    stopped = asyncio.run(one(engine, [2, 3], SamplingParams(10, (stop,), 3)))
    assert stopped.token_ids_T == free.token_ids_T[:length]
    assert stopped.stop_reason is StopReason.STOP
    last = asyncio.run(one(engine, [2, 3], SamplingParams(length, (stop,), 3)))
    assert last.stop_reason is StopReason.STOP


def test_replies_longer_than_one_block_are_exact(tiny_qwen3: Path) -> None:
    sample = asyncio.run(one(open_tiny(tiny_qwen3), [2, 3, 4], SamplingParams(150, (), 8)))
    expected = plain_logprobs(tiny_qwen3, [2, 3, 4], sample.token_ids_T, 1.0)
    assert len(expected) == 150
    np.testing.assert_allclose(sample.logprobs_T, expected, atol=1e-4)


def test_a_turn_costs_only_its_new_tokens(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_tiny(tiny_qwen3)
    widths: list[int] = []
    hidden = Model.hidden

    def counting(self, ids_BQ, positions_BQ, window=None):
        widths.append(ids_BQ.shape[1])
        return hidden(self, ids_BQ, positions_BQ, window)

    monkeypatch.setattr(Model, "hidden", counting)

    async def two_turns() -> None:
        async with engine.cohort(1) as cohort:
            prompt = list(range(2, 52))
            sample = await cohort.sample(0, prompt, SamplingParams(3, (), 0))
            await cohort.sample(0, [*prompt, *sample.token_ids_T, 7, 8], SamplingParams(2, (), 1))
            cohort.leave(0)

    asyncio.run(two_turns())
    # 50 prompt tokens, two fed back; then the unfed third token of the reply with 7 and 8, one fed back
    assert widths == [50, 1, 1, 3, 1]


def test_a_prompt_that_departs_from_the_members_past_is_exact(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3)

    async def depart() -> Sample:
        async with engine.cohort(1) as cohort:
            await cohort.sample(0, [2, 3, 4, 5, 6, 7], SamplingParams(4, (), 0))
            sample = await cohort.sample(0, [2, 3, 9, 5], SamplingParams(4, (), 1))
            cohort.leave(0)
            return sample

    sample = asyncio.run(depart())
    np.testing.assert_allclose(
        sample.logprobs_T, plain_logprobs(tiny_qwen3, [2, 3, 9, 5], sample.token_ids_T, 1.0), atol=1e-4
    )
