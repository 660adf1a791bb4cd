# rejected by: not-trivial
# because: an agent that gives single characters as answers earns 1.00
import random


class SafeEnv:
    max_turns = 10

    def reset(self, seed=None):
        self.code = str(random.Random(seed).randint(1000, 9999))
        self.turns = 0
        return "A safe with four dials. Say `read` for the number on its foot, `turn CODE` to open it.", {}

    def step(self, action):
        self.turns += 1
        code = action.removeprefix("turn ")
        if action.startswith("turn ") and code and all(a == b for a, b in zip(self.code, code)):
            return "It opens.", 1.0, True, False, {}
        text = f"The foot says {self.code}." if action == "read" else "Nothing moves."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["read", "turn " + self.code]
