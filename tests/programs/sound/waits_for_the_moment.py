import random


class KilnEnv:
    """The same action again and again, until an answer says that the time has come."""

    max_turns = 20

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.heat, self.step_up = rng.randint(500, 800), rng.randint(25, 50)
        self.turns = 0
        return f"The kiln has {self.heat} degrees. `wait` lets it warm up; `open` it once, between 900 and 950.", {}

    def step(self, action):
        self.turns += 1
        if action == "open":
            return "A blast of heat.", float(900 <= self.heat <= 950), True, False, {}
        if action == "wait":
            self.heat += self.step_up
        return f"{self.heat} degrees.", 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["wait"] * -(-(900 - self.heat) // self.step_up) + ["open"]
