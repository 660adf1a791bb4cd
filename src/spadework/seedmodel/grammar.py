"""Programs that the seed model learns to write: one or two stages under one environment class.

A family is one kind of stage. Its code is a template whose `{{slots}}` are filled with words of a document and with
difficulty dials. A composed program wins only if both of its stages are won, one after the other. The stages of a game
are texts that answer texts; those of a tool environment are tools and what a user asks for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

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
class Frame:
    """What stands around stages: the ``skeleton`` of a program, and what its slots say of each stage and of all."""

    skeleton: str
    call: str
    """How the environment calls a stage, named by its ``{{name}}``."""
    between: str
    """Between two such calls."""

    def calls(self, names: Sequence[str]) -> str:
        return self.between.join(fill(self.call, {"name": name}) for name in names)


GAME = Frame(
    """import random

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
""",
    "{{name}}(rng)",
    ", ",
)

TOOLS = Frame(
    """from typing import Literal

from tool_environment import Instruction, ToolEnv, ToolError, tool


def call(name, *words):
    return {"name": name, "arguments": dict(zip(("word", "to"), words))}

{{stages}}
class {{name}}{{bases}}:
    max_turns = {{turns}}

    def setup(self, rng):
        self.state, self.instructions, self.calls = {"unasked": 0}, [], []
        {{calls}}

    def final_check(self):
        return self.state["unasked"] == 0

    def solution(self):
        return self.calls
""",
    "{{name}}.setup(self, rng)",
    "\n        ",
)


@dataclass(frozen=True)
class Family:
    """One kind of stage.

    ``opening`` matches what opens the stage: a game's observation, or what the user of a tool environment asks for.
    Its groups are what ``expert`` and ``moves`` read. ``expert`` is the move of a player that reasons from what it has
    seen alone; ``moves`` are the moves a careless one may make. A move is words: a verb or a tool, and what goes with
    it. ``tools`` has the parameters of each tool; a family that has none is a game.
    """

    name: str
    skill: str
    code: str
    hints: tuple[str, ...]
    opening: re.Pattern[str]
    dials: Callable[[np.random.Generator], Dials]
    expert: Callable[[re.Match[str], History], str]
    moves: Callable[[re.Match[str], History], list[str]]
    tools: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def frame(self) -> Frame:
        return TOOLS if self.tools else GAME


@dataclass(frozen=True)
class Written:
    """A program of the grammar with what is known of it."""

    source: str
    hint: str
    families: tuple[str, ...]


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


def class_bases(stages: Sequence[str]) -> str:
    """What follows the name of an environment that inherits from its ``stages``."""
    return f"Env({', '.join(stages)}, ToolEnv)"


def words_needed(dials: Sequence[Dials]) -> int:
    """Words of a document that a program takes: a theme and the things of every stage."""
    return sum(1 + dial.words for dial in dials)


def write_program(
    families: Sequence[Family], dials: Sequence[Dials], words: Sequence[str], hints: Sequence[str]
) -> Written:
    """One program over ``words``, which are all different. Its hint is one sentence per stage.

    All ``families`` are games, or tool environments whose tools have different names.
    """
    stages: list[str] = []
    rest = list(words)
    for name, family, dial in zip(STAGE_NAMES, families, dials, strict=False):
        # In the order in which most programs name them.
        things, theme, rest = rest[: dial.words], rest[dial.words], rest[dial.words + 1 :]
        # A word is the same token wherever it stands if it always follows a space.
        slots = {"stage": name, "theme": f" {theme}", "words": "".join(f" {word}" for word in things), **dial.slots}
        stages.append(fill(family.code, slots))
    names, frame = STAGE_NAMES[: len(families)], families[0].frame
    source = fill(
        frame.skeleton,
        {
            "stages": "\n".join(stages),
            "name": "".join(class_name(family.name) for family in families),
            "bases": class_bases(names),
            "turns": str(sum(dial.turns for dial in dials)),
            "calls": frame.calls(names),
        },
    )
    return Written(source, " ".join(hints), tuple(family.name for family in families))
