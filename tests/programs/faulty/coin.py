# rejected by: not-trivial
# because: an agent that guesses among what it is shown earns
import random


class CoinEnv:
    max_turns = 1

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.numbers = rng.sample(range(10, 99), 2)
        return f"Which is larger, {self.numbers[0]} or {self.numbers[1]}?", {}

    def step(self, action):
        won = action == str(max(self.numbers))
        return "Right." if won else "Wrong.", float(won), True, False, {}

    def solution(self):
        return [str(max(self.numbers))]
