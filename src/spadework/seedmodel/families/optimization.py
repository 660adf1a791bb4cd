"""Optimization: the largest of hidden values, bargaining, taking in order."""

from __future__ import annotations

import re

import numpy as np

from spadework.seedmodel.families.logic import about, listed
from spadework.seedmodel.grammar import Dials, Family, History

_SKILL = "optimization"


def _largest_expert(opening: re.Match[str], history: History) -> str:
    found = {action.removeprefix("look "): answer for action, answer in history if action.startswith("look ")}
    for word in listed(opening):
        if word not in found:
            return f"look {word}"
    return f"take {max(found, key=lambda word: int(found[word]) if found[word].isdecimal() else -1)}"


def _largest_dials(rng: np.random.Generator) -> Dials:
    words = int(rng.integers(4, 6))
    return Dials(words, words + 1 + int(rng.integers(0, 2)), {})


LARGEST = Family(
    "largest",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.words = "{{words}}".split()
        rng.shuffle(self.words)
        self.worth = dict(zip(self.words, rng.sample(range(1, 10), len(self.words))))
        self.text = "The{{theme}} worth: " + ", ".join(self.words) + ". look WORD, take WORD worth most."

    def act(self, verb, word):
        if verb == "look" and word in self.worth:
            return None, str(self.worth[word])
        if verb == "take":
            return self.worth.get(word) == max(self.worth.values()), "over"
        return None, "look WORD or take WORD"

    def plan(self):
        return ["look " + word for word in self.words] + ["take " + max(self.words, key=self.worth.get)]
""",
    ("Look at every one before taking, then take the one with the greatest number.",),
    re.compile(r"The (?P<theme>\S+) worth: (?P<words>.+)\. look WORD, take WORD worth most\."),
    _largest_dials,
    _largest_expert,
    lambda opening, history: about(listed(opening), "look", "take"),
)


def _bargain_expert(opening: re.Match[str], history: History) -> str:
    asked = int(opening["asked"])
    refused = any(answer == "more" for _, answer in history)
    return f"bid {asked if refused else asked - 2}"


def _bargain_dials(rng: np.random.Generator) -> Dials:
    return Dials(4, int(rng.integers(2, 5)), {})


BARGAIN = Family(
    "bargain",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.asked = 10 * rng.randint(1, 8) + rng.randint(3, 9)
        self.least = self.asked - rng.randint(0, 3)
        self.thing = rng.choice("{{words}}".split())
        self.text = f"The{{theme}} market: {self.thing} for {self.asked}, maybe 3 less. Pay at most 1 too much: bid NUMBER."

    def act(self, verb, word):
        if verb != "bid" or not word.isdecimal():
            return None, "bid NUMBER"
        if int(word) < self.least:
            return None, "more"
        return int(word) <= self.least + 1, "over"

    def plan(self):
        return [f"bid {self.asked - 2}"] + [f"bid {self.asked}"] * (self.least > self.asked - 2)
""",
    ("Bid two below the asked number first, and the asked number if more is wanted.",),
    re.compile(
        r"The (?P<theme>\S+) market: (?P<thing>\S+) for (?P<asked>\d+), maybe 3 less\. Pay at most 1 too much: bid NUMBER\."
    ),
    _bargain_dials,
    _bargain_expert,
    lambda opening, history: [f"bid {int(opening['asked']) + change}" for change in range(-6, 3)],
)


def _sizes(opening: re.Match[str]) -> dict[str, int]:
    return {word: int(number) for word, number in (pair.split() for pair in opening["sizes"].split(", "))}


def _sort_expert(opening: re.Match[str], history: History) -> str:
    taken = {action.partition(" ")[2] for action, answer in history if answer.startswith("left ")}
    left = {word: size for word, size in _sizes(opening).items() if word not in taken}
    return f"take {min(left or _sizes(opening), key=lambda word: _sizes(opening)[word])}"


def _sort_dials(rng: np.random.Generator) -> Dials:
    words = int(rng.integers(3, 6))
    return Dials(words, words + int(rng.integers(0, 2)), {})


SORT = Family(
    "sort",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.words = "{{words}}".split()
        rng.shuffle(self.words)
        self.size = dict(zip(self.words, rng.sample(range(1, 10), len(self.words))))
        self.text = "The{{theme}} sizes: " + self.sizes() + ". take WORD, small first."

    def sizes(self):
        return ", ".join(f"{word} {self.size[word]}" for word in self.words)

    def act(self, verb, word):
        if verb != "take":
            return None, "take WORD"
        if word != min(self.words, key=self.size.get):
            return False, "over"
        self.words.remove(word)
        return (None, "left " + self.sizes()) if self.words else (True, "over")

    def plan(self):
        return ["take " + word for word in sorted(self.words, key=self.size.get)]
""",
    ("Take the one with the least number among those that are left, each turn.",),
    re.compile(r"The (?P<theme>\S+) sizes: (?P<sizes>.+)\. take WORD, small first\."),
    _sort_dials,
    _sort_expert,
    lambda opening, history: [f"take {word}" for word in _sizes(opening)],
)

FAMILIES = (LARGEST, BARGAIN, SORT)
