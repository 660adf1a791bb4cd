import random

WORDS = "quartz basalt shale chalk flint slate marble gneiss pumice jasper agate onyx".split()


class StoneEnv:
    """Everything is in the first observation, and still has to be worked out."""

    max_turns = 3

    def reset(self, seed=None):
        self.stones = random.Random(seed).sample(WORDS, 4)
        self.turns = 0
        return "Sort these stones by their last letter, then by their first: " + " ".join(self.stones) + ".", {}

    def answer(self):
        return " ".join(sorted(self.stones, key=lambda word: (word[-1], word[0])))

    def step(self, action):
        self.turns += 1
        if action.split() == self.answer().split():
            return "Sorted.", 1.0, True, False, {}
        right = sum(a == b for a, b in zip(action.split(), self.answer().split()))
        return f"{right} in place.", 0.1 * right / 4, False, self.turns >= self.max_turns, {}

    def solution(self):
        return [self.answer()]
