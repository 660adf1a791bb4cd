"""Tools that depend on each other: a file behind a lock, a service that something blocks, a pass for a hall."""

from __future__ import annotations

import re

import numpy as np

from spadework.seedmodel.families.retrieval import answer_to, halves, seen
from spadework.seedmodel.grammar import Dials, Family, History


def _move_expert(opening: re.Match[str], history: History) -> str:
    place = answer_to(history, f"locate {opening['file']}")
    if not place:
        return f"locate {opening['file']}"
    unlocked = any(action == f"unlock {place}" for action, _ in history)
    return f"move {opening['file']} {opening['target']}" if unlocked else f"unlock {place}"


def _move_moves(opening: re.Match[str], history: History) -> list[str]:
    words = (opening["file"], opening["target"], *seen(history, "locate"))
    pairs = [f"move {first} {second}" for first in words[:2] for second in words]
    return [*pairs, *(f"{tool} {word}" for word in words for tool in ("locate", "unlock", "wipe"))]


def _move_dials(rng: np.random.Generator) -> Dials:
    return Dials(int(rng.integers(4, 8)), int(rng.integers(3, 6)), {})


MOVE = Family(
    "move",
    "multi-step workflows",
    '''
class {{stage}}:
    def setup(self, rng):
        words = "{{words}}".split()
        rng.shuffle(words)
        places, files = words[:3], words[3:]
        self.state |= {"place": {file: rng.choice(places) for file in files}, "unlocked": dict.fromkeys(places, False)}
        file = rng.choice(files)
        self.source = self.state["place"][file]
        target = rng.choice([place for place in places if place != self.source])
        text = "The{{theme}} store: move " + file + " to " + target + "."
        self.instructions += [Instruction(text, lambda state: state["place"][file] == target)]
        self.calls += [call("locate", file), call("unlock", self.source), call("move", file, target)]

    @tool
    def locate(self, word: str) -> str:
        """Find out where a file is."""
        if word.strip() not in self.state["place"]:
            raise ToolError("there is no such file")
        return "it is in " + self.state["place"][word.strip()]

    @tool
    def unlock(self, word: str) -> str:
        """Unlock a place, so that files can leave it."""
        if word.strip() not in self.state["unlocked"]:
            raise ToolError("there is no such place")
        self.state["unasked"] += word.strip() != self.source
        self.state["unlocked"][word.strip()] = True
        return "it is unlocked"

    @tool
    def move(self, word: str, to: str) -> str:
        """Move a file to a place."""
        word, to = word.strip(), to.strip()
        if word not in self.state["place"] or to not in self.state["unlocked"]:
            raise ToolError("there is no such file or place")
        if not self.state["unlocked"][self.state["place"][word]]:
            raise ToolError("where it is, it is locked")
        self.state["place"][word] = to
        return "it is moved"

    @tool
    def wipe(self, word: str) -> str:
        """Wipe a file."""
        self.state["unasked"] += 1
        return "it is wiped"
''',
    ("Locate it, unlock the place where it is, then move it where the user wants it.",),
    re.compile(r"The (?P<theme>\S+) store: move (?P<file>\S+) to (?P<target>\S+)\."),
    _move_dials,
    _move_expert,
    _move_moves,
    {"locate": ("word",), "unlock": ("word",), "move": ("word", "to"), "wipe": ("word",)},
)


def _service_expert(opening: re.Match[str], history: History) -> str:
    cause = answer_to(history, f"check {opening['name']}")
    if not cause:
        return f"check {opening['name']}"
    cleared = any(action == f"clear {cause}" for action, _ in history)
    return f"start {opening['name']}" if cleared else f"clear {cause}"


def _service_moves(opening: re.Match[str], history: History) -> list[str]:
    words = (opening["name"], *seen(history, "check"))
    return [f"{tool} {word}" for word in words for tool in ("start", "check", "clear", "reboot")]


def _service_dials(rng: np.random.Generator) -> Dials:
    return Dials(halves(rng), int(rng.integers(3, 6)), {})


SERVICE = Family(
    "service",
    "error recovery",
    '''
class {{stage}}:
    def setup(self, rng):
        words = "{{words}}".split()
        rng.shuffle(words)
        half = len(words) // 2
        self.state |= {"waits": dict(zip(words[:half], words[half:])), "runs": dict.fromkeys(words[:half], False)}
        name = rng.choice(words[:half])
        self.cause = self.state["waits"][name]
        text = "The{{theme}} board: start " + name + "."
        self.instructions += [Instruction(text, lambda state: state["runs"][name])]
        self.calls += [call("check", name), call("clear", self.cause), call("start", name)]

    @tool
    def start(self, word: str) -> str:
        """Start a service."""
        if word.strip() not in self.state["runs"]:
            raise ToolError("there is no such service")
        if word.strip() in self.state["waits"]:
            raise ToolError("it is blocked")
        self.state["runs"][word.strip()] = True
        return "it runs"

    @tool
    def check(self, word: str) -> str:
        """Find out what a service waits for."""
        if word.strip() not in self.state["waits"]:
            raise ToolError("it waits for nothing")
        return "it waits for " + self.state["waits"][word.strip()]

    @tool
    def clear(self, word: str) -> str:
        """Clear what something waits for."""
        self.state["unasked"] += word.strip() != self.cause
        for name, cause in list(self.state["waits"].items()):
            if cause == word.strip():
                del self.state["waits"][name]
        return "it is cleared"

    @tool
    def reboot(self, word: str) -> str:
        """Start everything anew."""
        self.state["unasked"] += 1
        return "it takes a while"
''',
    ("Check what it waits for, clear that, then start it.",),
    re.compile(r"The (?P<theme>\S+) board: start (?P<name>\S+)\."),
    _service_dials,
    _service_expert,
    _service_moves,
    {"start": ("word",), "check": ("word",), "clear": ("word",), "reboot": ("word",)},
)


def _reserve_expert(opening: re.Match[str], history: History) -> str:
    key = answer_to(history, f"login {opening['user']}")
    if not key:
        return f"login {opening['user']}"
    room = answer_to(history, f"rooms {key}")
    return f"reserve {room} {key}" if room else f"rooms {key}"


def _reserve_moves(opening: re.Match[str], history: History) -> list[str]:
    words = (opening["user"], *seen(history, "login", "rooms"))
    pairs = [f"reserve {first} {second}" for first in words for second in words]
    return [*pairs, *(f"{tool} {word}" for word in words for tool in ("login", "rooms", "cancel"))]


def _reserve_dials(rng: np.random.Generator) -> Dials:
    return Dials(3 * int(rng.integers(2, 4)), int(rng.integers(3, 6)), {})


RESERVE = Family(
    "reserve",
    "API orchestration",
    '''
class {{stage}}:
    def setup(self, rng):
        words = "{{words}}".split()
        rng.shuffle(words)
        third = len(words) // 3
        users, keys, rooms = words[:third], words[third : 2 * third], words[2 * third :]
        self.state |= {"keys": dict(zip(users, keys)), "free": dict(zip(keys, rooms)), "reserved": {}}
        user = rng.choice(users)
        key = self.state["keys"][user]
        room = self.state["free"][key]
        text = "The{{theme}} hall: reserve a room for " + user + "."
        self.instructions += [Instruction(text, lambda state: state["reserved"].get(room) == key)]
        self.calls += [call("login", user), call("rooms", key), call("reserve", room, key)]

    @tool
    def login(self, word: str) -> str:
        """Get the key of a user."""
        if word.strip() not in self.state["keys"]:
            raise ToolError("there is no such user")
        return "the key is " + self.state["keys"][word.strip()]

    @tool
    def rooms(self, word: str) -> str:
        """Find the free room for a key."""
        if word.strip() not in self.state["free"]:
            raise ToolError("there is no such key")
        return "there is " + self.state["free"][word.strip()]

    @tool
    def reserve(self, word: str, to: str) -> str:
        """Reserve a room with a key."""
        if self.state["free"].get(to.strip()) != word.strip():
            raise ToolError("the room and the key do not fit")
        self.state["reserved"][word.strip()] = to.strip()
        return "it is reserved"

    @tool
    def cancel(self, word: str) -> str:
        """Cancel all that is reserved with a key."""
        self.state["unasked"] += 1
        return "it is cancelled"
''',
    ("Get the key by a login, find the free room with the key, then reserve the room with the key.",),
    re.compile(r"The (?P<theme>\S+) hall: reserve a room for (?P<user>\S+)\."),
    _reserve_dials,
    _reserve_expert,
    _reserve_moves,
    {"login": ("word",), "rooms": ("word",), "reserve": ("word", "to"), "cancel": ("word",)},
)

FAMILIES = (MOVE, SERVICE, RESERVE)
