import random


class LighthouseEnv:
    """A number stands in the first observation, of the size of the answer, and is not the answer."""

    max_turns = 5

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.year, self.code = rng.sample(range(1800, 1900), 2)
        self.turns = 0
        return f"A lighthouse of the year {self.year}. Say `climb` for its log, `dial N` to reach its keeper.", {}

    def step(self, action):
        self.turns += 1
        if action == "dial " + str(self.code):
            return "A voice answers.", 1.0, True, False, {}
        if action.startswith("dial"):
            return f"Nobody there. The house of {self.year} is silent.", 0.0, False, self.turns >= self.max_turns, {}
        text = f"The log says: built in {self.year}, calls to {self.code}." if action == "climb" else "Climb or dial."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["climb", f"dial {self.code}"]
