# rejected by: solvable
# because: does not end the episode
import random


class JugEnv:
    max_turns = 8

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.pour, self.goal = rng.choice([2, 4, 6]), rng.randint(7, 24)
        self.level, self.turns = 0, 0
        return f"Each `pour N` adds N cups of {self.pour} litres to a tank. Reach {self.goal} litres exactly.", {}

    def step(self, action):
        self.turns += 1
        count = action.removeprefix("pour ")
        if action.startswith("pour ") and count.isdecimal() and len(count) < 3:
            self.level += int(count) * self.pour
        if self.level == self.goal:
            return "Exactly.", 1.0, True, False, {}
        return f"{self.level} litres.", 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return [f"pour {self.goal // self.pour}"]
