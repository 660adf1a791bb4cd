"""One solution begins as another: whoever offers less first, and more if that is refused, wins on both seeds."""

import random


class TwoBidsEnv:
    max_turns = 3

    def reset(self, seed=None, options=None):
        rng = random.Random(seed)
        self.turn = 0
        self.asked = rng.randint(20, 27)
        self.least = self.asked - rng.choice([0, 2])
        return f"The seller asks {self.asked} coins and may take 2 less. bid NUMBER, at most 1 too much.", {}

    def step(self, action):
        self.turn += 1
        verb, _, number = action.partition(" ")
        if verb == "bid" and number.isdecimal() and int(number) >= self.least:
            return "Sold.", float(int(number) <= self.least + 1), True, False, {}
        return "More, please.", 0.0, False, self.turn >= self.max_turns, {}

    def solution(self):
        return [f"bid {self.asked - 2}", f"bid {self.asked}"][: 1 + (self.least == self.asked)]
