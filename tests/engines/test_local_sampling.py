from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import torch
import transformers
from tiny_models import VOCABULARY, open_tiny

from spadework.engines.base import Sample, SamplingParams
from spadework.engines.local.engine import LocalEngine

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
