"""A mediocre player: right often enough to show how each game is won, wrong often enough to leave room to learn."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spadework.environment.tool_calls import decode_observation
from spadework.seedmodel.families import ALL
from spadework.seedmodel.grammar import Family


@dataclass(frozen=True)
class Heard:
    """One observation: what the last move was ``answered`` with, and what may ``open`` a stage. Of a game both are
    its text; the tools answer, and the user opens."""

    answer: str
    opening: str


def hear(observation: str, uses_tools: bool, first: bool = False) -> Heard:
    """Raises NotToolObservation."""
    if not uses_tools:
        return Heard(observation, observation)
    found = decode_observation(observation, first)
    return Heard(*("".join(texts[-1:]) for texts in ([result.content for result in found.results], found.told)))


def current_stage(heard: Sequence[Heard]) -> tuple[Family, re.Match[str], int]:
    """The stage that is being played, its opening, and the index of the observation that opened it.

    Raises ValueError if no observation opens a stage of the grammar.
    """
    for index in range(len(heard) - 1, -1, -1):
        for family in ALL:
            match = family.opening.fullmatch(heard[index].opening)
            if match:
                return family, match, index
    raise ValueError(f"no stage of the grammar opens in {heard!r}")


def choose(heard: Sequence[Heard], moves: Sequence[str], skill: float, rng: np.random.Generator) -> tuple[Family, str]:
    """The stage's family and the next move: with probability ``skill`` the expert's, otherwise any."""
    family, opening, start = current_stage(heard)
    history = list(zip(moves[start:], (one.answer for one in heard[start + 1 :]), strict=True))
    if rng.random() < skill:
        return family, family.expert(opening, history)
    possible = family.moves(opening, history)
    return family, possible[int(rng.integers(len(possible)))]


def reply(family: Family, move: str) -> str:
    """What the agent says to make a move: in a box, or as a call. A word is the same token if it follows a space."""
    if not family.tools:
        return f"\\boxed{{{move}}}"
    tool, *words = move.split()
    arguments = {
        name.rstrip("="): word if name.endswith("=") else f" {word}"
        for name, word in zip(family.tools[tool], words, strict=True)
    }
    return call_text(json.dumps({"name": tool, "arguments": arguments}))


def call_text(call: str) -> str:
    """One call as the seed model's chat template has it."""
    return f"<tool_call>\n{call}\n</tool_call>"
