"""Logical deduction: elimination, search in an order, looking up before answering."""

from __future__ import annotations

import re

import numpy as np

from spadework.seedmodel.grammar import Dials, Family, History

_SKILL = "logical deduction"


def listed(opening: re.Match[str]) -> list[str]:
    """The words that the opening lists."""
    return opening["words"].split(", ")


def about(words: list[str], *verbs: str) -> list[str]:
    return [f"{verb} {word}" for verb in verbs for word in words]


def _eliminate_expert(opening: re.Match[str], history: History) -> str:
    answers = {action.removeprefix("ask "): answer for action, answer in history}
    for word, answer in answers.items():
        if answer == "yes":
            return f"say {word}"
    left = [word for word in listed(opening) if word not in answers]
    return f"say {left[0]}" if len(left) == 1 else f"ask {left[0] if left else listed(opening)[0]}"


def _eliminate_dials(rng: np.random.Generator) -> Dials:
    words = int(rng.integers(4, 7))
    return Dials(words, max(3, words - int(rng.integers(0, 3))), {})


ELIMINATE = Family(
    "eliminate",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.words = "{{words}}".split()
        rng.shuffle(self.words)
        self.goal = rng.choice(self.words)
        self.text = "The{{theme}}: one of " + ", ".join(self.words) + " did it. ask WORD or say WORD."

    def act(self, verb, word):
        if verb == "ask" and word in self.words:
            return None, "yes" if word == self.goal else "no"
        if verb == "say":
            return word == self.goal, "over"
        return None, "ask WORD or say WORD"

    def plan(self):
        return ["ask " + self.goal, "say " + self.goal]
""",
    ("Ask about a new one each turn and say the one that gets a yes.",),
    re.compile(r"The (?P<theme>\S+): one of (?P<words>.+) did it\. ask WORD or say WORD\."),
    _eliminate_dials,
    _eliminate_expert,
    lambda opening, history: about(listed(opening), "ask", "say"),
)


def _bisect_expert(opening: re.Match[str], history: History) -> str:
    words = listed(opening)
    low, high = 0, len(words) - 1
    for action, answer in history:
        word = action.partition(" ")[2]
        if action.startswith("ask ") and word in words:
            if answer == "yes":
                return f"say {word}"
            if answer == "later":
                low = max(low, words.index(word) + 1)
            elif answer == "earlier":
                high = min(high, words.index(word) - 1)
    return f"say {words[low]}" if low >= high else f"ask {words[(low + high) // 2]}"


def _bisect_dials(rng: np.random.Generator) -> Dials:
    words = int(rng.integers(5, 8))
    return Dials(words, int(rng.integers(3, 6)), {})


BISECT = Family(
    "bisect",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.words = "{{words}}".split()
        rng.shuffle(self.words)
        self.goal = rng.choice(self.words)
        self.text = "The{{theme}} shelf: " + ", ".join(self.words) + ". One is marked. ask WORD or say WORD."

    def act(self, verb, word):
        if verb == "ask" and word in self.words:
            here, there = self.words.index(word), self.words.index(self.goal)
            return None, "later" if here < there else "earlier" if here > there else "yes"
        if verb == "say":
            return word == self.goal, "over"
        return None, "ask WORD or say WORD"

    def plan(self):
        moves, low, high = [], 0, len(self.words) - 1
        goal = self.words.index(self.goal)
        while low < high:
            middle = (low + high) // 2
            moves.append("ask " + self.words[middle])
            if middle == goal:
                break
            low, high = (middle + 1, high) if middle < goal else (low, middle - 1)
        return moves + ["say " + self.goal]
""",
    ("Ask about the middle of what is left, then say the only one left or the one that gets a yes.",),
    re.compile(r"The (?P<theme>\S+) shelf: (?P<words>.+)\. One is marked\. ask WORD or say WORD\."),
    _bisect_dials,
    _bisect_expert,
    lambda opening, history: about(listed(opening), "ask", "say"),
)


def _lookup_seen(history: History) -> list[str]:
    return [answer.removeprefix("it is ") for _, answer in history if answer.startswith("it is ")]


def _lookup_expert(opening: re.Match[str], history: History) -> str:
    for action, answer in history:
        if action == f"read {opening['key']}":
            return f"say {answer.removeprefix('it is ')}"
    return f"read {opening['key']}"


def _lookup_dials(rng: np.random.Generator) -> Dials:
    return Dials(2 * int(rng.integers(3, 5)), int(rng.integers(2, 4)), {})


LOOKUP = Family(
    "lookup",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        words = "{{words}}".split()
        rng.shuffle(words)
        half = len(words) // 2
        self.book = dict(zip(words[:half], words[half:]))
        self.key = rng.choice(words[:half])
        self.text = "The{{theme}} book: " + ", ".join(self.book) + ". What is under " + self.key + "? read WORD or say WORD."

    def act(self, verb, word):
        if verb == "read" and word in self.book:
            return None, "it is " + self.book[word]
        if verb == "say":
            return word == self.book[self.key], "over"
        return None, "read WORD or say WORD"

    def plan(self):
        return ["read " + self.key, "say " + self.book[self.key]]
""",
    ("Read what the question is about, then say what was found there.",),
    re.compile(r"The (?P<theme>\S+) book: (?P<words>.+)\. What is under (?P<key>.+)\? read WORD or say WORD\."),
    _lookup_dials,
    _lookup_expert,
    lambda opening, history: [*about(listed(opening), "read", "say"), *about(_lookup_seen(history), "say")],
)

FAMILIES = (ELIMINATE, BISECT, LOOKUP)
