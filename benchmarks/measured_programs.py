"""Programs to measure with: three as models write them, and extremes.

Each source has a place for a number, so that any count of different programs can be made of it.
"""

from __future__ import annotations

from dataclasses import dataclass

WORD = '''
import random

WORDS = """about above actor adapt admit agree alarm album alert alike alive allow alone among angle apple arena argue
arise aside audio avoid award aware badge basic beach begin being below bench birth black blade blame blank blind block
board boost bound brain brand brave bread break brick brief bring broad brown brush build bunch cabin cable candy carry
catch cause chain chair chalk charm chart chase cheap check chess chest chief child claim class clean clear clerk click
climb clock close cloth cloud coach coast count court cover craft crane crash cream crime cross crowd crown curve cycle
daily dance death delay depth dirty doubt dozen draft drama dream dress drink drive eager early earth eight elect empty
enemy enjoy enter equal error event every exact exist extra faith false fault favor fence fever field fifth fight final
first fixed flame flash fleet float flood floor fluid focus force frame fresh front fruit giant glass globe grace grade
grain grand grant grass great green greet group guard guess guest guide happy heart heavy horse hotel house human"""
WORDS = WORDS.split()


class Word{number}Env:
    """Guess a hidden word of five letters; each guess is marked letter by letter."""

    max_turns = 1000

    def __init__(self):
        self.words = WORDS
        self.secret = ""
        self.guesses = []

    def reset(self, seed=None, options=None):
        self.rng = random.Random(seed)
        self.secret = self.rng.choice(self.words)
        self.guesses = []
        return self._board("Guess the word. g = right place, y = wrong place, . = not in the word."), {{}}

    def step(self, action):
        guess = "".join(letter for letter in action.lower() if letter.isalpha())
        if len(guess) != 5:
            return self._board("A guess has five letters."), 0.0, False, len(self.guesses) >= self.max_turns, {{}}
        marks = self._mark(guess)
        self.guesses.append((guess, marks))
        won = guess == self.secret
        reward = 1.0 if won else marks.count("g") * 0.05
        truncated = not won and len(self.guesses) >= self.max_turns
        return self._board("Right!" if won else "Not yet."), reward, won, truncated, {{"guesses": len(self.guesses)}}

    def _mark(self, guess):
        marks = ["."] * 5
        left = {{}}
        for index, (ours, theirs) in enumerate(zip(guess, self.secret)):
            if ours == theirs:
                marks[index] = "g"
            else:
                left[theirs] = left.get(theirs, 0) + 1
        for index, letter in enumerate(guess):
            if marks[index] == "." and left.get(letter, 0) > 0:
                marks[index] = "y"
                left[letter] -= 1
        return "".join(marks)

    def _board(self, message):
        lines = [message, "", "Board:"]
        for number, (guess, marks) in enumerate(self.guesses, start=1):
            squares = " ".join(f"{{letter.upper()}}[{{mark}}]" for letter, mark in zip(guess, marks))
            lines.append(f"{{number:>3}}. {{squares}}")
        keyboard = {{}}
        for guess, marks in self.guesses:
            for letter, mark in zip(guess, marks):
                if mark == "g" or keyboard.get(letter) != "g":
                    keyboard[letter] = mark
        for name, wanted in (("Placed", "g"), ("Misplaced", "y"), ("Absent", ".")):
            letters = sorted(letter for letter, mark in keyboard.items() if mark == wanted)
            lines.append(f"{{name}}: {{', '.join(letters) or 'none'}}")
        unused = [letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter not in keyboard]
        lines.append("Not tried: " + ", ".join(unused))
        return "\\n".join(lines)

    def solution(self):
        return [self.secret]
'''

RULE = '''
import math
import random
import re
import statistics
from abc import ABC, abstractmethod
from dataclasses import dataclass, field


class Rule(ABC):
    @abstractmethod
    def value(self, x):
        """What the rule makes of x."""


@dataclass
class Polynomial(Rule):
    coefficients: list

    def value(self, x):
        return sum(c * x ** power for power, c in enumerate(self.coefficients))


@dataclass
class Remainder(Rule):
    factor: int
    modulus: int

    def value(self, x):
        return self.factor * x % self.modulus


@dataclass
class Notebook:
    probes: list = field(default_factory=list)

    @property
    def table(self):
        known = dict(self.probes)
        rows = [f"| {{x:>4}} | {{known[x]:>6}} |" for x in sorted(known)]
        return "\\n".join(["|    x |   f(x) |", "|------|--------|", *rows])

    @property
    def differences(self):
        xs = sorted(dict(self.probes))
        return [b - a for a, b in zip(xs, xs[1:])]


class Rule{number}Env:
    """Find a hidden function: ask for values, then predict one."""

    max_turns = 1000

    def reset(self, seed=None, options=None):
        rng = random.Random(seed)
        if rng.random() < 0.5:
            self.rule = Polynomial([rng.randint(-5, 5) for _ in range(3)])
        else:
            self.rule = Remainder(rng.randint(2, 9), rng.randint(10, 30))
        self.target = rng.randint(50, 99)
        self.notebook = Notebook()
        self.turns = 0
        text = f"Say `ask N` with -20 <= N <= 20, or `predict Y` for f({{self.target}})."
        return text, {{"target": self.target}}

    def step(self, action):
        self.turns += 1
        truncated = self.turns >= self.max_turns
        match = re.fullmatch(r"\\s*(ask|predict)\\s+(-?\\d{{1,9}})\\s*", action)
        if match is None:
            return "Say `ask N` or `predict Y`.", 0.0, False, truncated, {{}}
        verb, number = match.group(1), int(match.group(2))
        if verb == "predict":
            wanted = self.rule.value(self.target)
            score = 1.0 if number == wanted else max(0.0, 0.5 - math.log1p(abs(number - wanted)) / 20)
            return f"f({{self.target}}) = {{wanted}}", score, number == wanted, truncated, {{}}
        if not -20 <= number <= 20:
            return "Only -20 to 20.", 0.0, False, truncated, {{}}
        self.notebook.probes.append((number, self.rule.value(number)))
        values = [y for _, y in self.notebook.probes]
        spread = f"smallest {{min(values)}}, largest {{max(values)}}, mean {{statistics.fmean(values):.2f}}"
        info = {{"probes": len(values), "last": list(self.notebook.probes[-1]), "gaps": self.notebook.differences}}
        return f"{{self.notebook.table}}\\n{{spread}}\\nTurns so far: {{self.turns}}", 0.0, False, truncated, info

    def solution(self):
        return [f"predict {{self.rule.value(self.target)}}"]
'''

ORDERS = '''
import copy
import json
import random
from enum import Enum


class Status(Enum):
    OPEN = "open"
    PAID = "paid"
    SHIPPED = "shipped"
    CANCELLED = "cancelled"


class ToolError(Exception):
    """What a tool answers when it cannot do what was asked."""


class Orders{number}Env:
    """A shop's desk: tools are called in JSON until the order that was asked for is shipped."""

    max_turns = 1000
    NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hal", "Ida", "Jon"]
    GOODS = ["lamp", "chair", "desk", "shelf", "rug", "mirror", "clock", "vase"]

    def reset(self, seed=None, options=None):
        rng = random.Random(seed)
        self.orders = {{}}
        for index in range(40):
            items = [{{"name": rng.choice(self.GOODS), "count": rng.randint(1, 4)}} for _ in range(rng.randint(1, 3))]
            self.orders[f"A{{100 + index}}"] = {{
                "customer": rng.choice(self.NAMES), "status": Status.OPEN, "items": items,
                "total": sum(item["count"] * rng.randint(5, 80) for item in items), "notes": [],
            }}
        self.wanted = rng.choice(sorted(self.orders))
        self.before = copy.deepcopy(self.orders)
        self.log = []
        tools = [{{"name": name, "arguments": ["id"]}} for name in ("look", "pay", "ship", "cancel", "note")]
        order = self.orders[self.wanted]
        return f"Ship the order of {{order['customer']}} for {{order['total']}}. Tools: {{json.dumps(tools)}}", {{}}

    def step(self, action):
        self.log.append(action[:200])
        saved = copy.deepcopy(self.orders.get(self.wanted))  # a call that fails changes nothing
        truncated = len(self.log) >= self.max_turns
        try:
            call = json.loads(action)
            if not isinstance(call, dict):
                raise ToolError("a call is an object")
            tool = getattr(self, "_tool_" + str(call.get("tool")), None)
            if tool is None:
                raise ToolError(f"there is no tool {{call.get('tool')!r}}")
            answer = {{"ok": True, "result": tool(call)}}
        except json.JSONDecodeError as error:
            answer = {{"ok": False, "error": f"not JSON: {{error.msg}} at {{error.pos}}"}}
        except ToolError as error:
            self.orders[self.wanted] = saved
            answer = {{"ok": False, "error": str(error)}}
        done = self.orders[self.wanted]["status"] is Status.SHIPPED
        changed = [key for key, order in self.orders.items() if order["status"] is not self.before[key]["status"]]
        info = {{"calls": len(self.log), "changed": changed[:10]}}
        open_orders = [key for key, order in self.orders.items() if order["status"] is Status.OPEN]
        answer["open"] = {{"count": len(open_orders), "next": sorted(open_orders)[:8]}}
        return json.dumps(answer, indent=1), 1.0 if done else 0.0, done, truncated, info

    def _order(self, call):
        order = self.orders.get(call.get("id"))
        if order is None:
            raise ToolError(f"no order {{call.get('id')!r}}")
        return order

    def _tool_look(self, call):
        seen = copy.deepcopy(self._order(call))
        seen["status"] = seen["status"].value
        return seen

    def _tool_pay(self, call):
        order = self._order(call)
        if order["status"] is not Status.OPEN:
            raise ToolError("only an open order can be paid")
        order["status"] = Status.PAID
        return "paid"

    def _tool_ship(self, call):
        order = self._order(call)
        if order["status"] is not Status.PAID:
            raise ToolError("only a paid order can be shipped")
        order["status"] = Status.SHIPPED
        return "shipped"

    def _tool_note(self, call):
        notes = self._order(call)["notes"]
        notes.append(str(call.get("text", ""))[:50])
        del notes[:-5]
        return notes

    def solution(self):
        return [json.dumps({{"tool": tool, "id": self.wanted}}) for tool in ("pay", "ship")]
'''

TINY = '''
import os


class Tiny{number}Env:
    """Counts its steps: what a step costs that does next to nothing."""

    def reset(self, seed=None):
        self.count = seed or 0
        return "go", {{}}

    def step(self, action):
        if action == "die":
            os._exit(1)
        self.count += 1
        return f"count {{self.count}}", 0.0, False, False, {{}}
'''

HEAVY = '''
import random


class Heavy{number}Env:
    """Relaxes a grid at every step, which takes some milliseconds."""

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.grid = [[rng.random() for _ in range(120)] for _ in range(120)]
        return "go", {{}}

    def step(self, action):
        old = self.grid
        self.grid = [
            [(old[i - 1][j] + old[(i + 1) % 120][j] + old[i][j - 1] + old[i][(j + 1) % 120]) / 4 for j in range(120)]
            for i in range(120)
        ]
        return f"{{self.grid[0][0]:.6f}}", 0.0, False, False, {{}}
'''

HOSTILE = '''
class Hostile{number}Env:
    """Hangs at every step."""

    def reset(self, seed=None):
        return "go", {{}}

    def step(self, action):
        while True:
            pass
'''

WORD_ACTIONS = ("crane", "about", "what?", "flood", "light", "guess")
RULE_ACTIONS = ("ask 3", "ask -7", "ask 11", "hm", "ask 20", "ask -1", "predict 12", "ask 0", "ask 15")
ORDERS_ACTIONS = (
    '{"tool": "look", "id": "A104"}',
    '{"tool": "note", "id": "A107", "text": "call back"}',
    '{"tool": "pay", "id": "A1"}',
    "not json",
    '{"tool": "look", "id": "A131"}',
)


@dataclass(frozen=True)
class Workload:
    """Programs of one or more kinds, in turn, and what is done with each. None of the actions ends a play."""

    sources: tuple[str, ...]
    actions: tuple[tuple[str, ...], ...]

    def source(self, number: int) -> str:
        return self.sources[number % len(self.sources)].format(number=number)

    def action(self, number: int, turn: int) -> str:
        actions = self.actions[number % len(self.sources)]
        return actions[turn % len(actions)]


WRITTEN = Workload((WORD, RULE, ORDERS), (WORD_ACTIONS, RULE_ACTIONS, ORDERS_ACTIONS))
LIGHT = Workload((TINY,), (("x",),))
SLOW = Workload((HEAVY,), (("x",),))
