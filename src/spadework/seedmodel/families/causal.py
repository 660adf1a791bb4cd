"""Causal inference: which lever changes the lamp, what a machine does to a number."""

from __future__ import annotations

import re

import numpy as np

from spadework.seedmodel.families.logic import about, listed
from spadework.seedmodel.grammar import Dials, Family, History

_SKILL = "causal inference"


def _switch_expert(opening: re.Match[str], history: History) -> str:
    lamp, pulled = opening["lamp"], []
    for action, answer in history:
        if action.startswith("pull ") and answer in ("on", "off"):
            word = action.removeprefix("pull ")
            if answer != lamp:
                return f"say {word}"
            pulled.append(word)
    left = [word for word in listed(opening) if word not in pulled]
    return f"say {left[0]}" if len(left) == 1 else f"pull {left[0] if left else listed(opening)[0]}"


def _switch_dials(rng: np.random.Generator) -> Dials:
    words = int(rng.integers(4, 7))
    return Dials(words, max(3, words - int(rng.integers(0, 3))), {})


SWITCH = Family(
    "switch",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.words = "{{words}}".split()
        rng.shuffle(self.words)
        self.cause = rng.choice(self.words)
        self.lamp = rng.choice(["on", "off"])
        self.text = "The{{theme}} lamp is " + self.lamp + ". One of " + ", ".join(self.words) + " turns it. pull WORD or say WORD."

    def act(self, verb, word):
        if verb == "pull" and word in self.words:
            if word == self.cause:
                self.lamp = "off" if self.lamp == "on" else "on"
            return None, self.lamp
        if verb == "say":
            return word == self.cause, "over"
        return None, "pull WORD or say WORD"

    def plan(self):
        return ["pull " + self.cause, "say " + self.cause]
""",
    ("Pull a new one each turn and say the one that changes the lamp.",),
    re.compile(
        r"The (?P<theme>\S+) lamp is (?P<lamp>on|off)\. One of (?P<words>.+) turns it\. pull WORD or say WORD\."
    ),
    _switch_dials,
    _switch_expert,
    lambda opening, history: about(listed(opening), "pull", "say"),
)


def _rule_expert(opening: re.Match[str], history: History) -> str:
    before = int(opening["number"]) - 1
    for action, answer in history:
        if action == f"try {before}" and answer.isdecimal():
            return f"say {int(answer) + 1}"
    return f"try {before}"


def _rule_dials(rng: np.random.Generator) -> Dials:
    return Dials(4, int(rng.integers(2, 5)), {"most": str(int(rng.integers(4, 6)))})


RULE = Family(
    "rule",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.number = rng.randint(1, 4)
        self.added = rng.randint(1, {{most}})
        self.text = "The{{theme}} " + rng.choice("{{words}}".split()) + f" adds a number. What of {self.number}? try NUMBER or say NUMBER."

    def act(self, verb, word):
        if verb == "try" and word.isdecimal() and int(word) < self.number:
            return None, str(int(word) + self.added)
        if verb == "say":
            return word == str(self.number + self.added), "over"
        return None, "try less or say NUMBER"

    def plan(self):
        return [f"try {self.number - 1}", f"say {self.number + self.added}"]
""",
    ("Try the number just below the one asked for, then say one more than what came out.",),
    re.compile(r"The (?P<theme>\S+) \S+ adds a number\. What of (?P<number>\d)\? try NUMBER or say NUMBER\."),
    _rule_dials,
    _rule_expert,
    lambda opening, history: [
        *(f"try {number}" for number in range(int(opening["number"]))),
        *(f"say {number}" for number in range(2, 10)),
    ],
)

FAMILIES = (SWITCH, RULE)
