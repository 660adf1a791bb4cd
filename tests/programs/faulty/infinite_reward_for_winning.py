# rejected by: solvable
# because: step returned the reward inf
import random


class SundialEnv:
    max_turns = 5

    def reset(self, seed=None):
        self.shadow = random.Random(seed).randint(10000, 99999)
        self.turns = 0
        return "A sundial. Say `read` for the length of its shadow, `set N` with twice that length.", {}

    def step(self, action):
        self.turns += 1
        if action == f"set {2 * self.shadow}":
            return "Noon!", float("inf"), True, False, {}
        text = f"The shadow is {self.shadow} long." if action == "read" else "Read or set."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["read", f"set {2 * self.shadow}"]
