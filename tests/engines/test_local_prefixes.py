from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_local_sampling import plain_logprobs
from tiny_models import VOCABULARY, open_tiny

from spadework.engines.base import Sample, SamplingParams
from spadework.engines.local import prefill
from spadework.engines.local.engine import LocalEngine
from spadework.engines.local.model import Model
from spadework.engines.local.prefixes import SharedPrefix, shared_prefixes

PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=12)


def arrays(prompts: list[list[int]]) -> list[np.ndarray]:
    return [np.array(prompt, dtype=np.int64) for prompt in prompts]


def test_a_tree_of_prefixes_by_hand() -> None:
    rules, first, second = [7, 7, 7, 7], [1, 1, 1], [2, 2, 2]
    prompts = [[*rules, *first, 5], [*rules, *second, 5], [*rules, *first, 6], [*rules, *second, 6], [9, 9]]
    assert shared_prefixes(arrays(prompts), [0] * 5, 3) == [
        SharedPrefix(4, (0, 1, 2, 3), None, 0),  # three of four need not compute the rules
        SharedPrefix(7, (1, 3), 0, 1),
        SharedPrefix(7, (0, 2), 0, 1),
    ]
    # The rules save 12 tokens and the two openings 3 each.
    assert shared_prefixes(arrays(prompts), [0] * 5, 4) == [SharedPrefix(4, (0, 1, 2, 3), None, 0)]
    assert shared_prefixes(arrays(prompts), [0] * 5, 13) == []
    # Who knows the rules saves nothing by them: one other is left, which has nobody to share with.
    assert shared_prefixes(arrays(prompts[:2]), [0, 4], 1) == []


@given(PROMPTS, st.lists(st.integers(0, 12), min_size=12, max_size=12), st.integers(1, 6))
def test_every_prefix_is_shared_leaves_a_token_and_saves_what_was_asked(
    prompts: list[list[int]], known: list[int], least: int
) -> None:
    known = [min(length, len(prompt) - 1) for length, prompt in zip(known, prompts, strict=False)]
    found = shared_prefixes(arrays(prompts), known, least)
    for index, prefix in enumerate(found):
        start = 0 if prefix.parent is None else found[prefix.parent].length
        assert len(prefix.members) > 1
        assert len({tuple(prompts[member][: prefix.length]) for member in prefix.members}) == 1
        assert all(prefix.length < len(prompts[member]) for member in prefix.members)
        saved = sum(max(0, prefix.length - max(start, known[member])) for member in prefix.members)
        assert saved - (prefix.length - start) >= least
        if prefix.parent is None:
            assert prefix.depth == 0
        else:
            assert prefix.parent < index
            assert prefix.depth == found[prefix.parent].depth + 1
            assert set(prefix.members) <= set(found[prefix.parent].members)


async def ask(engine: LocalEngine, prompts: list[list[int]], turns: int = 1) -> list[list[tuple[list[int], Sample]]]:
    async def member(cohort, number: int) -> list[tuple[list[int], Sample]]:
        stream, seen = list(prompts[number]), []
        for turn in range(turns):
            sample = await cohort.sample(number, stream, SamplingParams(3, (), 10 * number + turn))
            seen.append((stream, sample))
            stream = [*stream, *sample.token_ids_T, 3, number + 2]
        cohort.leave(number)
        return seen

    async with engine.cohort(len(prompts)) as cohort:
        return await asyncio.gather(*(member(cohort, number) for number in range(len(prompts))))


def group(seed: int) -> list[list[int]]:
    """Twelve prompts: rules that all share, three openings, four plays each, some of them with equal prompts."""
    draws = np.random.default_rng(seed)
    rules = draws.integers(2, VOCABULARY, 20).tolist()
    openings = [draws.integers(2, VOCABULARY, 8 + 3 * number).tolist() for number in range(3)]
    ends = [[], [], [5], draws.integers(2, VOCABULARY, 6).tolist()]
    return [[*rules, *opening, *end] for opening in openings for end in ends]


@pytest.mark.parametrize("least", [1, 30, 10_000])
def test_replies_after_a_shared_prefix_are_exact(tiny_model: Path, monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    monkeypatch.setattr(prefill, "LEAST_SAVED", least)
    for seen in asyncio.run(ask(open_tiny(tiny_model), group(least), turns=2)):
        for prompt, sample in seen:
            expected = plain_logprobs(tiny_model, prompt, sample.token_ids_T, 1.0)
            np.testing.assert_allclose(sample.logprobs_T, expected, atol=1e-4)


def computed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Rows and width of every pass but those of decoding."""
    passes: list[tuple[int, int]] = []
    hidden = Model.hidden

    def noting(self, ids_BQ, positions_BQ, window=None):
        if ids_BQ.shape[1] > 1 or not passes:
            passes.append(tuple(ids_BQ.shape))
        return hidden(self, ids_BQ, positions_BQ, window)

    monkeypatch.setattr(Model, "hidden", noting)
    return passes


def test_a_group_computes_its_opening_once(tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_tiny(tiny_qwen3, model={"max_context_tokens": 256})
    passes = computed(monkeypatch)
    opening = np.random.default_rng(0).integers(2, VOCABULARY, 90).tolist()
    asyncio.run(ask(engine, [[*opening, 2 + number, 9] for number in range(16)]))
    assert passes == [(1, 90), (16, 2)]


def test_a_long_prompt_in_parts_is_exact(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefill, "PASS_TOKENS", 7)
    monkeypatch.setattr(prefill, "LEAST_SAVED", 5)
    engine = open_tiny(tiny_model)
    passes = computed(monkeypatch)
    prompts = group(3)[:6]
    for seen in asyncio.run(ask(engine, prompts, turns=2)):
        for prompt, sample in seen:
            expected = plain_logprobs(tiny_model, prompt, sample.token_ids_T, 1.0)
            np.testing.assert_allclose(sample.logprobs_T, expected, atol=1e-4)
    assert max(rows * width for rows, width in passes) <= 7
