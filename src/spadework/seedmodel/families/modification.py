"""State modification with tools: a status to set, a picture hung wrongly, two statuses at once (held out)."""

from __future__ import annotations

import re

import numpy as np

from spadework.seedmodel.families.retrieval import answer_to, halves, seen
from spadework.seedmodel.grammar import Dials, Family, History

_SKILL = "state modification"

FIND = '''
    @tool
    def find(self, word: str) -> str:
        """Find the code of a thing."""
        if word.strip() not in self.state["codes"]:
            raise ToolError("there is no such thing")
        return "its code is " + self.state["codes"][word.strip()]

    @tool
    def set(self, word: str, to: Literal["open", "shut", "lost"]) -> str:
        """Set the status of a code."""
        if word.strip() not in self.state["status"]:
            raise ToolError("there is no such code")
        self.state["unasked"] += word.strip() not in self.coded
        self.state["status"][word.strip()] = to
        return "it is " + to

    @tool
    def scrap(self, word: str) -> str:
        """Take a thing off the list."""
        self.state["codes"].pop(word.strip(), None)
        self.state["unasked"] += 1
        return "it is off the list"
'''
FIND_TOOLS = {"find": ("word",), "set": ("word", "to="), "scrap": ("word",)}
STATUSES = ("open", "shut", "lost")


def _find_moves(opening: re.Match[str], history: History) -> list[str]:
    named = [word for group, word in opening.groupdict().items() if group not in ("theme", "to")]
    words = (*named, *seen(history, "find"))
    pairs = [f"set {word} {to}" for word in words for to in STATUSES]
    return [*pairs, *(f"{tool} {word}" for word in words for tool in ("find", "scrap"))]


def _status_expert(opening: re.Match[str], history: History) -> str:
    code = answer_to(history, f"find {opening['label']}")
    return f"set {code} {opening['to']}" if code else f"find {opening['label']}"


def _status_dials(rng: np.random.Generator) -> Dials:
    return Dials(halves(rng), int(rng.integers(2, 5)), {})


STATUS = Family(
    "status",
    _SKILL,
    """
class {{stage}}:
    def setup(self, rng):
        words = "{{words}}".split()
        rng.shuffle(words)
        half = len(words) // 2
        self.state |= {"codes": dict(zip(words[:half], words[half:])), "status": dict.fromkeys(words[half:], "open")}
        label, to = rng.choice(words[:half]), rng.choice(["shut", "lost"])
        code = self.state["codes"][label]
        self.coded = [code]
        text = "The{{theme}} desk: set " + label + " to " + to + "."
        self.instructions += [Instruction(text, lambda state: state["status"][code] == to)]
        self.calls += [call("find", label), call("set", code, to)]
"""
    + FIND,
    ("Find the code first, then set the code as the user wants it.",),
    re.compile(r"The (?P<theme>\S+) desk: set (?P<label>\S+) to (?P<to>\S+)\."),
    _status_dials,
    _status_expert,
    _find_moves,
    FIND_TOOLS,
)


def _hang_expert(opening: re.Match[str], history: History) -> str:
    if opening["spot"]:
        return f"hang {opening['picture']} {opening['spot']}"
    released = any(action == f"release {opening['moved']}" for action, _ in history)
    return f"hang {opening['moved']} {opening['other']}" if released else f"release {opening['moved']}"


def _hang_moves(opening: re.Match[str], history: History) -> list[str]:
    words = (opening["picture"] or opening["moved"], opening["spot"] or opening["other"])
    pairs = [f"hang {first} {second}" for first in words for second in words]
    return [*pairs, *(f"{tool} {word}" for word in words for tool in ("release", "burn"))]


def _hang_dials(rng: np.random.Generator) -> Dials:
    return Dials(int(rng.integers(4, 8)), int(rng.integers(3, 6)), {})


HANG = Family(
    "hang",
    _SKILL,
    '''
class {{stage}}:
    def setup(self, rng):
        words = "{{words}}".split()
        rng.shuffle(words)
        self.picture, spot, other = words[:3]
        self.state["hung"] = {}
        for place, text in (spot, "hang " + self.picture + " at " + spot), (other, "put " + self.picture + " at " + other + " after all"):
            criterion = lambda state, place=place: state["hung"].get(self.picture) == place
            self.instructions += [Instruction("The{{theme}} wall: " + text + ".", criterion)]
        self.calls += [call("hang", self.picture, spot), call("release", self.picture), call("hang", self.picture, other)]

    @tool
    def hang(self, word: str, to: str) -> str:
        """Hang a picture at a spot."""
        if word.strip() in self.state["hung"]:
            raise ToolError("it hangs somewhere")
        self.state["unasked"] += word.strip() != self.picture
        self.state["hung"][word.strip()] = to.strip()
        return "it hangs"

    @tool
    def release(self, word: str) -> str:
        """Take a picture off the wall."""
        if word.strip() not in self.state["hung"]:
            raise ToolError("it does not hang")
        del self.state["hung"][word.strip()]
        return "it is off"

    @tool
    def burn(self, word: str) -> str:
        """Burn a picture."""
        self.state["unasked"] += 1
        return "it is ash"
''',
    ("What hangs somewhere must be released before it can hang at another spot.",),
    re.compile(
        r"The (?P<theme>\S+) wall: (?:hang (?P<picture>\S+) at (?P<spot>\S+)"
        r"|put (?P<moved>\S+) at (?P<other>\S+) after all)\."
    ),
    _hang_dials,
    _hang_expert,
    _hang_moves,
    {"hang": ("word", "to"), "release": ("word",), "burn": ("word",)},
)


def _both_expert(opening: re.Match[str], history: History) -> str:
    for label in (opening["label"], opening["other"]):
        code = answer_to(history, f"find {label}")
        if not code:
            return f"find {label}"
        if not answer_to(history, f"set {code} {opening['to']}"):
            return f"set {code} {opening['to']}"
    return f"find {opening['label']}"


def _both_dials(rng: np.random.Generator) -> Dials:
    return Dials(halves(rng), int(rng.integers(4, 7)), {})


BOTH = Family(
    "both",
    _SKILL,
    """
class {{stage}}:
    def setup(self, rng):
        words = "{{words}}".split()
        rng.shuffle(words)
        half = len(words) // 2
        self.state |= {"codes": dict(zip(words[:half], words[half:])), "status": dict.fromkeys(words[half:], "open")}
        labels, to = rng.sample(words[:half], 2), rng.choice(["shut", "lost"])
        self.coded = [self.state["codes"][label] for label in labels]
        text = "The{{theme}} desk: set " + labels[0] + " and " + labels[1] + " to " + to + "."
        criterion = lambda state: all([state["status"][code] == to for code in self.coded])
        self.instructions += [Instruction(text, criterion)]
        for label, code in zip(labels, self.coded):
            self.calls += [call("find", label), call("set", code, to)]
"""
    + FIND,
    ("For each of them find the code, then set the code as the user wants it.",),
    re.compile(r"The (?P<theme>\S+) desk: set (?P<label>\S+) and (?P<other>\S+) to (?P<to>\S+)\."),
    _both_dials,
    _both_expert,
    _find_moves,
    FIND_TOOLS,
)

FAMILIES = (STATUS, HANG, BOTH)
