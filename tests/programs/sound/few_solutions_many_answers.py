import random


class DairyEnv:
    """Begins alike and has three solutions, but what its answers show is never the same."""

    max_turns = 6

    def reset(self, seed=None):
        self.milk = dict(zip(("Bella", "Clara", "Daisy"), random.Random(seed).sample(range(10, 40), 3)))
        self.turns = 0
        return "Three cows: Bella, Clara, Daisy. `milk NAME` tells her litres; `praise NAME` once: the best one.", {}

    def step(self, action):
        self.turns += 1
        verb, _, name = action.partition(" ")
        if verb == "praise":
            return "Moo.", float(self.milk.get(name) == max(self.milk.values())), True, False, {}
        text = f"{name} gives {self.milk[name]} litres." if verb == "milk" and name in self.milk else "Milk or praise."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return [f"milk {name}" for name in self.milk] + ["praise " + max(self.milk, key=self.milk.get)]
