import random


class BridgeEnv:
    """Each plank laid for the first time pays a little, and all of them together less than the win."""

    max_turns = 14

    def reset(self, seed=None):
        self.order = random.Random(seed).sample(range(1, 6), 5)
        self.laid = self.turns = 0
        return "A bridge of planks 1 to 5 in an unknown order. `lay N`: a wrong plank breaks and falls off, nothing worse.", {}

    def step(self, action):
        self.turns += 1
        late = self.turns >= self.max_turns
        if action != f"lay {self.order[self.laid]}":
            return f"It breaks. {self.laid} planks hold.", 0.0, False, late, {}
        self.laid += 1
        if self.laid == 5:
            return "You cross.", 1.0, True, False, {}
        return f"{self.laid} planks hold.", 0.05, False, late, {}

    def solution(self):
        return [f"lay {plank}" for plank in self.order]
