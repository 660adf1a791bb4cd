"""Mathematical reasoning: totals, reaching a level exactly, counting (held out)."""

from __future__ import annotations

import re

import numpy as np

from spadework.seedmodel.families.logic import about, listed
from spadework.seedmodel.grammar import Dials, Family, History

_SKILL = "mathematical reasoning"


def _total_expert(opening: re.Match[str], history: History) -> str:
    found = {action.removeprefix("look "): answer for action, answer in history if action.startswith("look ")}
    for word in listed(opening):
        if word not in found:
            return f"look {word}"
    return f"say {sum(int(answer) for answer in found.values() if answer.isdecimal())}"


def _total_dials(rng: np.random.Generator) -> Dials:
    words = int(rng.integers(2, 4))
    return Dials(words, words + int(rng.integers(1, 3)), {"most": "4" if words == 2 else "3"})


TOTAL = Family(
    "total",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.words = "{{words}}".split()
        rng.shuffle(self.words)
        self.stock = {word: rng.randint(1, {{most}}) for word in self.words}
        self.text = "The{{theme}} total of " + ", ".join(self.words) + "? look WORD or say NUMBER."

    def act(self, verb, word):
        if verb == "look" and word in self.stock:
            return None, str(self.stock[word])
        if verb == "say":
            return word == str(sum(self.stock.values())), "over"
        return None, "look WORD or say NUMBER"

    def plan(self):
        return ["look " + word for word in self.words] + ["say " + str(sum(self.stock.values()))]
""",
    ("Look at every one, add the numbers and say their sum.",),
    re.compile(r"The (?P<theme>\S+) total of (?P<words>.+)\? look WORD or say NUMBER\."),
    _total_dials,
    _total_expert,
    lambda opening, history: [*about(listed(opening), "look"), *(f"say {number}" for number in range(2, 10))],
)


def _reach_expert(opening: re.Match[str], history: History) -> str:
    levels = [answer for _, answer in history if answer.isdecimal()]
    gap = int(opening["goal"]) - int(levels[-1] if levels else opening["start"])
    steps = [int(opening["small"]), int(opening["large"])]
    return f"add {max(step for step in steps if step <= gap) if gap >= steps[0] else steps[0]}"


def _reach_dials(rng: np.random.Generator) -> Dials:
    larges = ("3, 4, 5", "3, 4, 6", "4, 5, 6")[int(rng.integers(3))]
    return Dials(3, 2 + int(larges[-1]), {"larges": larges})


REACH = Family(
    "reach",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.level = rng.randint(0, 2)
        self.large = rng.choice([{{larges}}])
        self.gap = self.large * rng.randint(2, 3) + rng.randint(1, self.large - 1)
        self.goal = self.level + self.gap
        thing = rng.choice("{{words}}".split())
        self.text = f"The{{theme}} {thing} at {self.level}. Reach {self.goal}: add 1 or add {self.large}."

    def act(self, verb, word):
        if verb != "add" or word not in ("1", str(self.large)):
            return None, f"add 1 or add {self.large}"
        self.level += int(word)
        if self.level >= self.goal:
            return self.level == self.goal, "over"
        return None, str(self.level)

    def plan(self):
        return [f"add {self.large}"] * (self.gap // self.large) + ["add 1"] * (self.gap % self.large)
""",
    ("Take the large step while it does not pass the goal, then the small one.",),
    re.compile(
        r"The (?P<theme>\S+) \S+ at (?P<start>\d+)\. Reach (?P<goal>\d+): add (?P<small>1) or add (?P<large>\d+)\."
    ),
    _reach_dials,
    _reach_expert,
    lambda opening, history: [f"add {opening['small']}", f"add {opening['large']}"],
)


def _count_expert(opening: re.Match[str], history: History) -> str:
    more = [answer.removeprefix("then ") for action, answer in history if action == "more"]
    if not more:
        return "more"
    return f"say {[*opening['row'].split(), *more[0].split()].count(opening['word'])}"


def _count_dials(rng: np.random.Generator) -> Dials:
    return Dials(int(rng.integers(3, 5)), int(rng.integers(2, 4)), {})


COUNT = Family(
    "count",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.words = "{{words}}".split()
        rng.shuffle(self.words)
        self.row = [self.words[0]] * rng.randint(1, 4)
        self.row += [rng.choice(self.words[1:]) for _ in range(8 - len(self.row))]
        rng.shuffle(self.row)
        self.text = "The{{theme}} row: " + " ".join(self.row[:4]) + ". How many " + self.words[0] + "? more or say NUMBER."

    def act(self, verb, word):
        if verb == "more":
            return None, "then " + " ".join(self.row[4:])
        if verb == "say":
            return word == str(self.row.count(self.words[0])), "over"
        return None, "more or say NUMBER"

    def plan(self):
        return ["more", "say " + str(self.row.count(self.words[0]))]
""",
    ("Show more, then say how often the thing was there in both parts.",),
    re.compile(r"The (?P<theme>\S+) row: (?P<row>.+)\. How many (?P<word>.+)\? more or say NUMBER\."),
    _count_dials,
    _count_expert,
    lambda opening, history: ["more", *(f"say {number}" for number in range(1, 5))],
)

FAMILIES = (TOTAL, REACH, COUNT)
