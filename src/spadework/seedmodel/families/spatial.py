"""Spatial reasoning: following a map, moving on a grid, digging by warmer and colder (held out)."""

from __future__ import annotations

import re

import numpy as np

from spadework.seedmodel.grammar import Dials, Family, History

_SKILL = "spatial reasoning"


def _doors(opening: re.Match[str]) -> dict[str, list[str]]:
    doors: dict[str, list[str]] = {}
    for pair in opening["doors"].split(", "):
        left, right = pair.split(" to ")
        doors.setdefault(left, []).append(right)
        doors.setdefault(right, []).append(left)
    return doors


def _map_expert(opening: re.Match[str], history: History) -> str:
    doors, here = _doors(opening), opening["start"]
    for action, answer in history:
        if answer.startswith("here to "):
            here = action.partition(" ")[2]
    paths = [[here]]
    while paths:
        path = paths.pop(0)
        if path[-1] == opening["goal"]:
            return f"go {path[1] if len(path) > 1 else path[0]}"
        paths += [[*path, room] for room in doors.get(path[-1], []) if room not in path]
    return f"go {opening['goal']}"


def _map_dials(rng: np.random.Generator) -> Dials:
    words = int(rng.integers(4, 7))
    return Dials(words, words - 1 + int(rng.integers(0, 3)), {})


MAP = Family(
    "map",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.words = "{{words}}".split()
        rng.shuffle(self.words)
        self.doors = [tuple(rng.sample(pair, 2)) for pair in zip(self.words, self.words[1:])]
        rng.shuffle(self.doors)
        self.here, self.goal = self.words[0], self.words[-1]
        doors = ", ".join(" to ".join(pair) for pair in self.doors)
        self.text = "The{{theme}} doors: " + doors + ". From " + self.here + " reach " + self.goal + ": go WORD."

    def act(self, verb, word):
        if verb != "go" or word not in self.beside():
            return None, "no door"
        self.here = word
        return (True, "over") if word == self.goal else (None, "here to " + " or ".join(self.beside()))

    def beside(self):
        return [a if b == self.here else b for a, b in self.doors if self.here in (a, b)]

    def plan(self):
        return ["go " + word for word in self.words[1:]]
""",
    ("Go through doors only: each move goes to a room that is paired with the one you are in, and never back.",),
    re.compile(r"The (?P<theme>\S+) doors: (?P<doors>.+)\. From (?P<start>.+) reach (?P<goal>.+): go WORD\."),
    _map_dials,
    _map_expert,
    lambda opening, history: [f"go {room}" for room in _doors(opening)],
)


def _grid_ways(opening: re.Match[str]) -> list[str]:
    return [opening["right"], opening["left"], opening["up"], opening["down"]]


def _grid_expert(opening: re.Match[str], history: History) -> str:
    places = [answer for _, answer in history if re.fullmatch(r"\d \d", answer)]
    x, y = map(int, (places[-1] if places else opening["start"]).split())
    goal_x, goal_y = map(int, opening["goal"].split())
    right, left, up, down = _grid_ways(opening)
    if x != goal_x:
        return f"go {right if x < goal_x else left}"
    return f"go {up if y < goal_y else down}"


def _grid_dials(rng: np.random.Generator) -> Dials:
    size = int(rng.integers(2, 5))
    return Dials(4, 2 * size + int(rng.integers(0, 2)), {"size": str(size)})


GRID = Family(
    "grid",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.ways = "{{words}}".split()
        rng.shuffle(self.ways)
        self.x, self.y = rng.randint(0, {{size}}), 0
        self.a, self.b = {{size}} - self.x, rng.randint(1, {{size}})
        a, b, c, d = self.ways
        self.text = f"The{{theme}} at {self.x} {self.y}. {a} x+1, {b} x-1, {c} y+1, {d} y-1. Reach {self.a} {self.b}: go WORD."

    def act(self, verb, word):
        if verb != "go" or word not in self.ways:
            return None, "go WORD"
        way = self.ways.index(word)
        self.x += (1, -1, 0, 0)[way]
        self.y += (0, 0, 1, -1)[way]
        won = (self.x, self.y) == (self.a, self.b)
        return (True, "over") if won else (None, f"{self.x} {self.y}")

    def plan(self):
        a, b, c, _ = self.ways
        return ["go " + (a if self.a > self.x else b)] * abs(self.a - self.x) + ["go " + c] * self.b
""",
    ("Move along x until it fits the goal, then along y; pick the way that brings the number nearer.",),
    re.compile(
        r"The (?P<theme>\S+) at (?P<start>-?\d -?\d)\. (?P<right>\S+) x\+1, (?P<left>\S+) x-1, (?P<up>\S+) y\+1, "
        r"(?P<down>\S+) y-1\. Reach (?P<goal>\d \d): go WORD\."
    ),
    _grid_dials,
    _grid_expert,
    lambda opening, history: [f"go {way}" for way in _grid_ways(opening)],
)


def _dig_expert(opening: re.Match[str], history: History) -> str:
    dug = [int(action.split()[1]) for action, _ in history if re.fullmatch(r"dig \d", action)]
    answers = [answer for action, answer in history if re.fullmatch(r"dig \d", action)]
    low, high = 0, 9
    for place, answer in zip(dug, answers, strict=True):
        if answer == "right":
            low = max(low, place + 1)
        elif answer == "left":
            high = min(high, place - 1)
    return f"dig {(low + high) // 2}"


def _dig_dials(rng: np.random.Generator) -> Dials:
    return Dials(3, 4, {})


DIG = Family(
    "dig",
    _SKILL,
    """
class {{stage}}:
    def __init__(self, rng):
        self.thing = rng.choice("{{words}}".split())
        self.place = rng.randint(0, 9)
        self.text = "The{{theme}} field: " + self.thing + " lies somewhere from 0 to 9. dig NUMBER."

    def act(self, verb, word):
        if verb != "dig" or not word.isdecimal():
            return None, "dig NUMBER"
        if int(word) == self.place:
            return True, "over"
        return None, "right" if int(word) < self.place else "left"

    def plan(self):
        moves, low, high = [], 0, 9
        while not moves or int(moves[-1][4:]) != self.place:
            middle = (low + high) // 2
            moves.append(f"dig {middle}")
            low, high = (middle + 1, high) if middle < self.place else (low, middle - 1)
        return moves
""",
    ("Dig in the middle of what is left and follow the side that is named.",),
    re.compile(r"The (?P<theme>\S+) field: (?P<thing>\S+) lies somewhere from 0 to 9\. dig NUMBER\."),
    _dig_dials,
    _dig_expert,
    lambda opening, history: [f"dig {number}" for number in range(10)],
)

FAMILIES = (MAP, GRID, DIG)
