import random


class CountingHouseEnv:
    """A hundred and twenty turns are allowed and eleven are needed."""

    max_turns = 120

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.sacks = [rng.randint(1, 99) for _ in range(10)]
        self.turns = 0
        return "Ten sacks, 1 to 10. `weigh N` tells a weight; `total N` answers for all together, once.", {}

    def step(self, action):
        self.turns += 1
        verb, _, number = action.partition(" ")
        if verb == "total":
            return "Noted.", float(number == str(sum(self.sacks))), True, False, {}
        text = "Weigh or total."
        if verb == "weigh" and number in map(str, range(1, 11)):
            text = f"Sack {number}: {self.sacks[int(number) - 1]}."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return [f"weigh {number}" for number in range(1, 11)] + [f"total {sum(self.sacks)}"]
