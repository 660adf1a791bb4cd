"""The supervised start: what of a sequence is learned, and that a start is repeatable and starts by copying."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3ForCausalLM

from spadework.roles.choosing import open_rendering
from spadework.roles.messages import Message
from spadework.roles.prompts.seed import SeedPrompts
from spadework.roles.rendering import Rendering, Tokenizer
from spadework.seedmodel.build import one_reply
from spadework.seedmodel.examples import PLAYS, plays
from spadework.seedmodel.families import family
from spadework.seedmodel.grammar import words_needed, write_program
from spadework.seedmodel.shipped import model_directory
from spadework.seedmodel.supervision import (
    PREVIOUS_TOKEN_HEADS,
    Recipe,
    Rendered,
    list_batch,
    new_model,
    supervise,
)

TINY = Recipe(steps=6, batch_tokens=64, hidden=32, heads=4, layers=2, intermediate=32)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return cast(PreTrainedTokenizerFast, AutoTokenizer.from_pretrained(model_directory()))


@pytest.fixture(scope="module")
def rendering(tokenizer: PreTrainedTokenizerFast) -> Rendering:
    return open_rendering(cast(Tokenizer, tokenizer), model_directory(), thinking=False)


def started(tokenizer: PreTrainedTokenizerFast, recipe: Recipe, *, words: tuple[int, ...] = ()) -> Qwen3ForCausalLM:
    model = new_model(tokenizer, recipe, seed=3)
    ids = [300, 301, 302, 303]
    sequences = [Rendered([*ids, 304, 305], [False] * 4 + [True] * 2)]
    supervise(model.train(), sequences, [*words, 306, 307], recipe, seed=3)
    return model


def test_the_reply_is_learned_and_not_the_prompt(rendering: Rendering) -> None:
    sequence = one_reply((Message("user", "look"),), "door", rendering)
    learned = [id_ for id_, learned in zip(sequence.ids_T, sequence.learned_T, strict=True) if learned]
    assert learned == [*rendering.encode("door"), rendering.stop_ids[0]]
    assert rendering.decode(sequence.ids_T).startswith("<|im_start|>user\nlook<|im_end|>")


@pytest.mark.parametrize(("name", "said"), [("lookup", "\\boxed{"), ("record", "<tool_call>")])
def test_of_a_play_the_moves_are_learned_and_nothing_else(rendering: Rendering, name: str, said: str) -> None:
    dials = family(name).dials(np.random.default_rng(0))
    words = [f"word{chr(97 + index)}" for index in range(words_needed([dials]))]
    written = write_program([family(name)], [dials], words, family(name).hints)
    played = asyncio.run(plays([written], rendering, SeedPrompts(rendering.encode), 0))
    assert len(played) == PLAYS
    for number, sequence in enumerate(played):
        text = rendering.decode(sequence.ids_T)
        assert ("HINT" in text) == bool(number % 2)
        learned = rendering.decode([id_ for id_, one in zip(sequence.ids_T, sequence.learned_T, strict=True) if one])
        replies = learned.split("<|im_end|>")
        assert replies.pop() == ""
        assert all(reply.startswith(said) for reply in replies)
        assert text.count("assistant\n") == len(replies)


def test_a_start_is_repeatable(tokenizer: PreTrainedTokenizerFast) -> None:
    one, other = (started(tokenizer, TINY).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "changed",
    [{"lists_share": 0.0}, {"word_weight": 1.0}, {"matrix_rate": 0.1}, {"embedding_rate": 0.1}, {"gain_rate": 0.1}],
)
def test_every_part_of_the_recipe_changes_the_start(
    tokenizer: PreTrainedTokenizerFast, changed: dict[str, float]
) -> None:
    usual, other = (
        started(tokenizer, recipe, words=(305,)).state_dict()
        for recipe in (TINY, replace(TINY, **changed))  # type: ignore[arg-type]
    )
    assert not all(torch.equal(usual[name], other[name]) for name in usual)


def test_an_untrained_model_attends_to_the_token_before(tokenizer: PreTrainedTokenizerFast) -> None:
    model = new_model(tokenizer, Recipe(), seed=0)
    model.set_attn_implementation("eager")
    ids_BT = torch.randint(300, 2000, (4, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        first_layer_BHTT = model(input_ids=ids_BT, output_attentions=True).attentions[0]
    before_BHT = first_layer_BHTT.diagonal(offset=-1, dim1=-2, dim2=-1)
    assert before_BHT[:, :PREVIOUS_TOKEN_HEADS].min() > 0.5


def test_a_list_asks_for_its_words_once_more() -> None:
    ids_BT, labels_BT = list_batch(np.arange(300, 340), 1000, 256, np.random.default_rng(0))
    asked = labels_BT >= 0
    assert torch.equal(ids_BT[asked], labels_BT[asked])
    length = int(asked[0].sum()) + 1
    for ids_T, asked_T in zip(ids_BT, asked, strict=True):
        second = ids_T[-length:].tolist()
        assert torch.equal(asked_T, torch.arange(len(ids_T)) > len(ids_T) - length)
        assert any(ids_T[start : start + length].tolist() == second for start in range(len(ids_T) - length))
