"""Tool selection: the way on which somebody can be told, and what no tool can do."""

from __future__ import annotations

import re

import numpy as np

from spadework.seedmodel.families.retrieval import halves, seen
from spadework.seedmodel.grammar import Dials, Family, History

_SKILL = "tool selection"
WAYS = ("mail", "phone", "visit")


def _tell_expert(opening: re.Match[str], history: History) -> str:
    for action, answer in history:
        if action == f"profile {opening['person']}" and ":" not in answer:
            way, address = answer.split()[0], answer.split()[-1]
            return f"{way} {address}"
    return f"profile {opening['person']}"


def _tell_moves(opening: re.Match[str], history: History) -> list[str]:
    words = (opening["person"], *seen(history, "profile"))
    return [f"{tool} {word}" for word in words for tool in ("profile", *WAYS, "remind")]


def _tell_dials(rng: np.random.Generator) -> Dials:
    return Dials(halves(rng), int(rng.integers(2, 5)), {})


TELL = Family(
    "tell",
    _SKILL,
    '''
class {{stage}}:
    def setup(self, rng):
        words = "{{words}}".split()
        rng.shuffle(words)
        half = len(words) // 2
        ways = {person: rng.choice(["mail", "phone", "visit"]) for person in words[:half]}
        self.state |= {"ways": ways, "at": dict(zip(words[:half], words[half:])), "told": []}
        self.person = rng.choice(words[:half])
        address, way = self.state["at"][self.person], ways[self.person]
        text = "The{{theme}} list: tell " + self.person + "."
        self.instructions += [Instruction(text, lambda state: address in state["told"])]
        self.calls += [call("profile", self.person), call(way, address)]

    @tool
    def profile(self, word: str) -> str:
        """Find out where and how somebody can be told."""
        if word.strip() not in self.state["at"]:
            raise ToolError("there is nobody of that name")
        return self.state["ways"][word.strip()] + " to " + self.state["at"][word.strip()]

    @tool
    def mail(self, word: str) -> str:
        """Tell somebody at an address by mail."""
        return self.told("mail", word.strip())

    @tool
    def phone(self, word: str) -> str:
        """Tell somebody at an address by phone."""
        return self.told("phone", word.strip())

    @tool
    def visit(self, word: str) -> str:
        """Tell somebody at an address by a visit."""
        return self.told("visit", word.strip())

    @tool
    def remind(self, word: str) -> str:
        """Remind somebody of what is due."""
        self.state["unasked"] += 1
        return "it is sent"

    def told(self, way, address):
        if self.state["ways"][self.person] != way or self.state["at"][self.person] != address:
            self.state["unasked"] += 1
            raise ToolError("nobody there can be told in this way")
        self.state["told"].append(address)
        return "it is told"
''',
    ("Look at the profile first, then go the way and to the address that it says.",),
    re.compile(r"The (?P<theme>\S+) list: tell (?P<person>\S+)\."),
    _tell_dials,
    _tell_expert,
    _tell_moves,
    {"profile": ("word",), "mail": ("word",), "phone": ("word",), "visit": ("word",), "remind": ("word",)},
)


def _stamp_expert(opening: re.Match[str], history: History) -> str:
    return f"{'stamp' if opening['verb'] == 'stamp' else 'decline'} {opening['form']}"


def _stamp_moves(opening: re.Match[str], history: History) -> list[str]:
    return [f"{tool} {opening['form']}" for tool in ("stamp", "decline", "weigh", "shred")]


def _stamp_dials(rng: np.random.Generator) -> Dials:
    asked = int(rng.integers(2, 4))
    return Dials(int(rng.integers(asked + 1, 7)), asked + int(rng.integers(0, 3)), {"asked": str(asked)})


STAMP = Family(
    "stamp",
    _SKILL,
    '''
class {{stage}}:
    def setup(self, rng):
        words = "{{words}}".split()
        rng.shuffle(words)
        self.state |= {"stamp": [], "decline": []}
        self.right = {}
        for form in words[:{{asked}}]:
            verb = rng.choice(["stamp", "stamp", "paint", "wash"])
            way = self.right[form] = "stamp" if verb == "stamp" else "decline"
            criterion = lambda state, form=form, way=way: form in state[way]
            self.instructions += [Instruction("The{{theme}} counter: " + verb + " " + form + ".", criterion)]
            self.calls += [call(way, form)]

    @tool
    def stamp(self, word: str) -> str:
        """Stamp a form."""
        self.state["unasked"] += self.right.get(word.strip()) != "stamp"
        self.state["stamp"].append(word.strip())
        return "it is stamped"

    @tool
    def decline(self, word: str) -> str:
        """Decline what the counter does not do with a form."""
        self.state["unasked"] += self.right.get(word.strip()) != "decline"
        self.state["decline"].append(word.strip())
        return "it is declined"

    @tool
    def weigh(self, word: str) -> str:
        """Weigh a form."""
        return "it is light"

    @tool
    def shred(self, word: str) -> str:
        """Shred a form."""
        self.state["unasked"] += 1
        return "it is in shreds"
''',
    ("Do what there is a tool for and decline everything else.",),
    re.compile(r"The (?P<theme>\S+) counter: (?P<verb>stamp|paint|wash) (?P<form>\S+)\."),
    _stamp_dials,
    _stamp_expert,
    _stamp_moves,
    {"stamp": ("word",), "decline": ("word",), "weigh": ("word",), "shred": ("word",)},
)

FAMILIES = (TELL, STAMP)
