"""Programs that the seed model learns to write: one or two stages under one environment class.

A family is one kind of stage. Its code is a template whose `{{slots}}` are filled with words of a document and with
difficulty dials. A composed program wins only if both of its stages are won, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Slots = Mapping[str, str]
History = Sequence[tuple[str, str]]
"""What was said in a stage so far: (action, answer) in order."""


@dataclass(frozen=True)
class Dials:
    """One setting of a family's difficulty: how many words it takes, its turn budget, and its further slots."""

    words: int
    turns: int
    slots: Slots


@dataclass(frozen=True)
class Family:
    """One kind of stage.

    ``opening`` matches the stage's opening observation; its groups are what ``expert`` and ``moves`` read. ``expert``
    is the move of a player that reasons from what it has seen alone; ``moves`` are the moves a careless one may make.
    """

    name: str
    skill: str
    code: str
    hints: tuple[str, ...]
    opening: re.Pattern[str]
    dials: Callable[[np.random.Generator], Dials]
    expert: Callable[[re.Match[str], History], str]
    moves: Callable[[re.Match[str], History], list[str]]


@dataclass(frozen=True)
class Written:
    """A program of the grammar with what is known of it."""

    source: str
    hint: str
    families: tuple[str, ...]


SKELETON = """import random

{{stages}}
class {{name}}Env:
    max_turns = {{turns}}

    def reset(self, seed=None, options=None):
        rng = random.Random(seed)
        self.turn = 0
        self.stages = [{{calls}}]
        return self.stages[0].text, {}

    def step(self, action):
        self.turn += 1
        verb, _, word = action.strip().partition(" ")
        won, text = self.stages[0].act(verb, word)
        if won and len(self.stages) > 1:
            self.stages.pop(0)
            won, text = None, self.stages[0].text
        done = won is not None
        return text, float(won or 0), done, not done and self.turn >= self.max_turns, {}

    def solution(self):
        return [move for stage in self.stages for move in stage.plan()]
"""

STAGE_NAMES = ("First", "Second")

_SLOT = re.compile(r"\{\{(\w+)\}\}")


def fill(template: str, slots: Slots) -> str:
    return _SLOT.sub(lambda match: slots[match.group(1)], template)


def fixed_text(template: str) -> list[str]:
    """The parts of a template between its slots, line by line; a line keeps the breaks and blank lines before it."""
    lines = re.findall(r"\n*[^\n]+|\n+$", template)
    return [part for line in lines for part in _SLOT.split(line)[::2] if part]


def class_name(name: str) -> str:
    return name[:1].upper() + name[1:]


def words_needed(dials: Sequence[Dials]) -> int:
    """Words of a document that a program takes: a theme and the things of every stage."""
    return sum(1 + dial.words for dial in dials)


def write_program(
    families: Sequence[Family], dials: Sequence[Dials], words: Sequence[str], hints: Sequence[str]
) -> Written:
    """One program over ``words``, which are all different. Its hint is one sentence per stage."""
    stages: list[str] = []
    rest = list(words)
    for name, family, dial in zip(STAGE_NAMES, families, dials, strict=False):
        # In the order in which most programs name them.
        things, theme, rest = rest[: dial.words], rest[dial.words], rest[dial.words + 1 :]
        # A word is the same token wherever it stands if it always follows a space.
        slots = {"stage": name, "theme": f" {theme}", "words": "".join(f" {word}" for word in things), **dial.slots}
        stages.append(fill(family.code, slots))
    names = STAGE_NAMES[: len(families)]
    source = fill(
        SKELETON,
        {
            "stages": "\n".join(stages),
            "name": "".join(class_name(family.name) for family in families),
            "turns": str(sum(dial.turns for dial in dials)),
            "calls": ", ".join(f"{name}(rng)" for name in names),
        },
    )
    return Written(source, " ".join(hints), tuple(family.name for family in families))
