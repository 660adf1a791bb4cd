"""Data retrieval with tools: a record to read, a value to ask for, a chain of records (held out)."""

from __future__ import annotations

import re

import numpy as np

from spadework.seedmodel.grammar import Dials, Family, History

_SKILL = "data retrieval"


def seen(history: History, *tools: str) -> list[str]:
    """Last words of what ``tools`` answered: what was found out."""
    return [answer.split()[-1] for action, answer in history if action.split()[0] in tools and ":" not in answer]


def answer_to(history: History, action: str) -> str:
    """The last word that a call was answered with; empty if it was not made or was refused."""
    return next((answer.split()[-1] for made, answer in history if made == action and ":" not in answer), "")


def halves(rng: np.random.Generator) -> int:
    """An even number of words: things, and what belongs to each."""
    return 2 * int(rng.integers(2, 5))


READ = '''
    @tool
    def read(self, word: str) -> str:
        """Read what is under a word."""
        if word.strip() not in self.state["book"]:
            raise ToolError("there is nothing under it")
        return "it is " + self.state["book"][word.strip()]

    @tool
    def note(self, word: str) -> str:
        """Note an answer, once."""
        if self.state["noted"]:
            raise ToolError("there is a note already")
        self.state["noted"] = word.strip()
        return "it is noted"

    @tool
    def tear(self, word: str) -> str:
        """Tear out what is under a word."""
        self.state["book"].pop(word.strip(), None)
        self.state["unasked"] += 1
        return "it is gone"
'''
READ_TOOLS = {"read": ("word",), "note": ("word",), "tear": ("word",)}


def _record_expert(opening: re.Match[str], history: History) -> str:
    found = answer_to(history, f"read {opening['key']}")
    return f"note {found}" if found else f"read {opening['key']}"


def _record_moves(opening: re.Match[str], history: History) -> list[str]:
    return [f"{tool} {word}" for word in (opening["key"], *seen(history, "read")) for tool in READ_TOOLS]


def _record_dials(rng: np.random.Generator) -> Dials:
    return Dials(halves(rng), int(rng.integers(2, 5)), {})


RECORD = Family(
    "record",
    _SKILL,
    """
class {{stage}}:
    def setup(self, rng):
        words = "{{words}}".split()
        rng.shuffle(words)
        half = len(words) // 2
        self.state |= {"book": dict(zip(words[:half], words[half:])), "noted": ""}
        key = rng.choice(words[:half])
        found = self.state["book"][key]
        text = "The{{theme}} book: note what is under " + key + "."
        self.instructions += [Instruction(text, lambda state: state["noted"] == found)]
        self.calls += [call("read", key), call("note", found)]
"""
    + READ,
    ("Read under the word that is named, then note what was found there.",),
    re.compile(r"The (?P<theme>\S+) book: note what is under (?P<key>\S+)\."),
    _record_dials,
    _record_expert,
    _record_moves,
    READ_TOOLS,
)


def _order_expert(opening: re.Match[str], history: History) -> str:
    wanted = answer_to(history, f"ask {opening['item']}")
    return f"order {opening['item']} {wanted}" if wanted else f"ask {opening['item']}"


def _order_moves(opening: re.Match[str], history: History) -> list[str]:
    words = (opening["item"], *seen(history, "ask"))
    pairs = [f"order {first} {second}" for first in words for second in words]
    return [*pairs, *(f"{tool} {word}" for word in words for tool in ("ask", "stock"))]


def _order_dials(rng: np.random.Generator) -> Dials:
    return Dials(halves(rng), int(rng.integers(2, 5)), {})


ORDER = Family(
    "order",
    _SKILL,
    '''
class {{stage}}:
    def setup(self, rng):
        words = "{{words}}".split()
        rng.shuffle(words)
        half = len(words) // 2
        self.state |= {"wishes": dict(zip(words[:half], words[half:])), "orders": {}}
        item = rng.choice(words[:half])
        wish = self.state["wishes"][item]
        text = "The{{theme}} shop: order " + item + "."
        self.instructions += [Instruction(text, lambda state: state["orders"].get(item) == wish)]
        self.calls += [call("ask", item), call("order", item, wish)]

    @tool
    def ask(self, word: str) -> str:
        """Ask the user which kind of an item it should be."""
        if word.strip() not in self.state["wishes"]:
            raise ToolError("the user does not know")
        return "make it " + self.state["wishes"][word.strip()]

    @tool
    def order(self, word: str, to: str) -> str:
        """Order an item of a kind."""
        self.state["unasked"] += self.state["wishes"].get(word.strip()) != to.strip()
        self.state["orders"][word.strip()] = to.strip()
        return "it is on its way"

    @tool
    def stock(self, word: str) -> str:
        """Look whether there is enough of an item."""
        return "there is enough"
''',
    ("Ask the user about it first, then order it as the user wants it.",),
    re.compile(r"The (?P<theme>\S+) shop: order (?P<item>\S+)\."),
    _order_dials,
    _order_expert,
    _order_moves,
    {"ask": ("word",), "order": ("word", "to"), "stock": ("word",)},
)


def _chain_expert(opening: re.Match[str], history: History) -> str:
    between = answer_to(history, f"read {opening['key']}")
    if not between:
        return f"read {opening['key']}"
    found = answer_to(history, f"read {between}")
    return f"note {found}" if found else f"read {between}"


def _chain_dials(rng: np.random.Generator) -> Dials:
    return Dials(int(rng.integers(4, 7)), int(rng.integers(3, 5)), {})


CHAIN = Family(
    "chain",
    _SKILL,
    """
class {{stage}}:
    def setup(self, rng):
        words = "{{words}}".split()
        rng.shuffle(words)
        self.state |= {"book": dict(zip(words, words[1:])), "noted": ""}
        start = rng.randrange(len(words) - 2)
        key, between, found = words[start : start + 3]
        text = "The{{theme}} book: note what is under what is under " + key + "."
        self.instructions += [Instruction(text, lambda state: state["noted"] == found)]
        self.calls += [call("read", key), call("read", between), call("note", found)]
"""
    + READ,
    ("Read under the word that is named, read under what was found there, then note what was found last.",),
    re.compile(r"The (?P<theme>\S+) book: note what is under what is under (?P<key>\S+)\."),
    _chain_dials,
    _chain_expert,
    _record_moves,
    READ_TOOLS,
)

FAMILIES = (RECORD, ORDER, CHAIN)
