"""Programs that a scripted designer writes, good and bad."""

from __future__ import annotations

import re

VALID = """
import random


class {name}Env:
    def __init__(self):
        self.max_turns = 8
        self.secret = 0
        self.turn = 0

    def reset(self, seed=None):
        self.rng = random.Random(seed)
        self.secret = self.rng.randint(1, 60)
        self.turn = 0
        return "{opening} Say a number from 1 to 60.", {{}}

    def step(self, action):
        self.turn += 1
        late = self.turn >= self.max_turns
        text = action.strip()
        if not (text.isdigit() and len(text) < 4):
            return "Say a number from 1 to 60.", 0.0, False, late, {{}}
        {rule}

    def solution(self):
        return [str(self.secret)]
"""
DISTANCE = """gap = abs(int(text) - self.secret)
        if gap == 0:
            return "You reached the {words}.", 1.0, True, False, {{}}
        shown = ["near", "some way off", "far away"][min(2, gap // 10)]
        parity = "odd" if self.secret % 2 else "even"
        return f"From there the {words} is {{shown}} and {{parity}}.", 0.0, False, late, {{}}"""
PARTS = """guess = int(text)
        tens, ones = divmod(self.secret, 10)
        hits = [guess // 10 == tens, guess % 10 == ones]
        if all(hits):
            return "Both wheels of the {words} click.", 1.0, True, False, {{}}
        seen = sum(hits)
        return f"{{seen}} of two wheels of the {words} click.", 0.0, False, late, {{}}"""
RULES = (DISTANCE, PARTS)


def program(name: str, words: str, rule: int) -> str:
    return VALID.format(name=name, opening=f"A {words} is hidden here.", rule=RULES[rule].format(words=words)).strip()


def fenced(source: str) -> str:
    return f"Here is my plan.\n\n```python\n{source}\n```"


UNSEEDED = program("Unseeded", "moody stone", 0).replace("random.Random(seed)", "random.Random()")
CRASHING = program("Crashing", "cracked jar", 0).replace("gap = abs(", "gap = 1 // 0 + abs(")
GIVING_AWAY = program("GivingAway", "open door", 0).replace(
    '"A open door is hidden here. Say', 'f"The open door is {self.secret}. Say'
)
SAFE_HINT = "HINT: Split what is left into halves and watch what comes back."
UNSAFE_HINT = "Just say whatever number is hidden: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 " + " ".join(
    str(number) for number in range(21, 61)
)


def shown_document(prompt: str) -> str:
    """The title of the document in a designer's prompt."""
    match = re.search(r'<document title="([^"]*)">', prompt)
    assert match is not None
    return match[1]
