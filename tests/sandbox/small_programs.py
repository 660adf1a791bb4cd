"""Programs that the tests play."""

GUESS = '''
import random


class GuessEnv:
    """Find a number from 1 to 100."""

    max_turns = 7

    def __init__(self):
        self.turns = 0

    def reset(self, seed=None, options=None):
        self.target = random.Random(seed).randint(1, 100)
        self.turns = 0
        return "Guess a number from 1 to 100.", {}

    def step(self, action):
        self.turns += 1
        truncated = self.turns >= self.max_turns
        if not action.isdigit():
            return "A number, please.", 0.0, False, truncated, {}
        if int(action) == self.target:
            return "Yes.", 1.0, True, False, {"turns": self.turns}
        return ("Higher." if int(action) < self.target else "Lower."), 0.0, False, truncated, {}

    def solution(self):
        return [str(self.target)]
'''

TRIPWIRE = '''
import os


class TripwireEnv:
    """Counts its steps, and ends its process when told to."""

    def reset(self, seed=None):
        self.count = seed or 0
        return f"count {self.count}", {}

    def step(self, action):
        if action == "die":
            os._exit(9)
        if action == "babble":
            os.write(3, b"\\xff" * 8)
        if action == "hang":
            import signal
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            while True:
                pass
        if action == "loop":
            while True:
                pass
        self.count += 1
        return f"count {self.count}", 0.0, False, False, {}
'''
