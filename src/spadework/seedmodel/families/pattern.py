"""Pattern recognition: a cycle, the odd one out, a row to give back in reverse (held out)."""

from __future__ import annotations

import re

import numpy as np

from spadework.seedmodel.grammar import Dials, Family, History

_SKILL = "pattern recognition"


def _row(opening: re.Match[str], history: History) -> list[str]:
    more = [answer.removeprefix("now ") for action, answer in history if action == "more"]
    return (more[-1] if more else opening["row"]).split()


def _cycle_expert(opening: re.Match[str], history: History) -> str:
    row = _row(opening, history)
    return f"say {row[1]}" if len(row) > 1 and row[0] == row[-1] else "more"


def _cycle_moves(opening: re.Match[str], history: History) -> list[str]:
    return ["more", *(f"say {word}" for word in dict.fromkeys(_row(opening, history)))]


def _cycle_dials(rng: np.random.Generator) -> Dials:
    words = int(rng.integers(4, 6))
    return Dials(words, words + 1 + int(rng.integers(0, 2)), {"shown": str(int(rng.integers(2, 4)))})


CYCLE = Family(
    "cycle",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.words = "{{words}}".split()
        rng.shuffle(self.words)
        self.shown = rng.randint(1, {{shown}})
        self.text = "The{{theme}} cycle: " + self.row() + ". more, or say WORD to go on."

    def row(self):
        return " ".join(self.words[place % len(self.words)] for place in range(self.shown))

    def act(self, verb, word):
        if verb == "more":
            self.shown += 1
            return None, "now " + self.row()
        if verb == "say":
            return word == self.words[self.shown % len(self.words)], "over"
        return None, "more or say WORD"

    def plan(self):
        return ["more"] * (len(self.words) + 1 - self.shown) + ["say " + self.words[1]]
""",
    ("Show more until the first thing comes again, then say the second.",),
    re.compile(r"The (?P<theme>\S+) cycle: (?P<row>.+)\. more, or say WORD to go on\."),
    _cycle_dials,
    _cycle_expert,
    _cycle_moves,
)


def _odd_seen(opening: re.Match[str], history: History) -> list[str]:
    return [
        *opening["row"].split(),
        *(word for action, answer in history if action == "more" for word in answer.removeprefix("then ").split()),
    ]


def _odd_expert(opening: re.Match[str], history: History) -> str:
    if not any(action == "more" for action, _ in history):
        return "more"
    seen = _odd_seen(opening, history)
    return f"say {next((word for word in seen if seen.count(word) == 1), seen[0])}"


def _odd_moves(opening: re.Match[str], history: History) -> list[str]:
    return ["more", *(f"say {word}" for word in dict.fromkeys(_odd_seen(opening, history)))]


def _odd_dials(rng: np.random.Generator) -> Dials:
    return Dials(int(rng.integers(4, 6)), int(rng.integers(2, 4)), {})


ODD = Family(
    "odd",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.words = "{{words}}".split()
        rng.shuffle(self.words)
        self.row = self.words + self.words[1:]
        rng.shuffle(self.row)
        self.text = "The{{theme}} pairs: " + " ".join(self.row[:4]) + ". more, or say WORD without a pair."

    def act(self, verb, word):
        if verb == "more":
            return None, "then " + " ".join(self.row[4:])
        if verb == "say":
            return word == self.words[0], "over"
        return None, "more or say WORD"

    def plan(self):
        return ["more", "say " + self.words[0]]
""",
    ("Show more, then say the one that was seen only once.",),
    re.compile(r"The (?P<theme>\S+) pairs: (?P<row>.+)\. more, or say WORD without a pair\."),
    _odd_dials,
    _odd_expert,
    _odd_moves,
)


def _back(opening: re.Match[str]) -> list[str]:
    words = opening["row"].split()
    start = words.index(opening["start"])
    return [*reversed(words[: start + 1]), *reversed(words[start + 1 :])]


def _reverse_expert(opening: re.Match[str], history: History) -> str:
    done = sum(answer == "good" for _, answer in history)
    return f"say {_back(opening)[done]}"


def _reverse_moves(opening: re.Match[str], history: History) -> list[str]:
    return [f"say {word}" for word in opening["row"].split()]


def _reverse_dials(rng: np.random.Generator) -> Dials:
    words = int(rng.integers(3, 5))
    return Dials(words, words + 1, {})


REVERSE = Family(
    "reverse",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.words = "{{words}}".split()
        rng.shuffle(self.words)
        start = rng.randrange(len(self.words))
        self.back = self.words[start::-1] + self.words[:start:-1]
        self.text = "The{{theme}} ring: " + " ".join(self.words) + ". say WORD backwards from " + self.back[0] + "."
        self.left = list(self.back)

    def act(self, verb, word):
        if verb != "say":
            return None, "say WORD"
        if word != self.left.pop(0):
            return False, "over"
        return (None, "good") if self.left else (True, "over")

    def plan(self):
        return ["say " + word for word in self.back]
""",
    ("Start from the named thing and go to the one before it each turn; the last comes before the first.",),
    re.compile(r"The (?P<theme>\S+) ring: (?P<row>.+)\. say WORD backwards from (?P<start>\S+)\."),
    _reverse_dials,
    _reverse_expert,
    _reverse_moves,
)

FAMILIES = (CYCLE, ODD, REVERSE)
