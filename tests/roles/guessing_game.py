"""A small sound program."""

from __future__ import annotations

GUESS = """
import random

class GuessEnv:
    max_turns = 4

    def reset(self, seed=None):
        self.secret = random.Random(seed).randint(1, 9)
        self.turn = 0
        return "Guess a number from 1 to 9.", {}

    def step(self, action):
        self.turn += 1
        if not action.isdigit():
            return "Say a number.", 0.0, False, self.turn == 4, {}
        if int(action) == self.secret:
            return "Yes.", 1.0, True, False, {}
        word = "low" if int(action) < self.secret else "high"
        return f"Too {word}.", 0.0, False, self.turn == 4, {}
"""
