from __future__ import annotations


class GardenEnv:
    """Constructs itself by resetting; uses numpy without importing it."""

    max_turns = 12

    def __init__(self):
        self.reset()

    def reset(self, seed=None):
        rng = np.random.default_rng(0 if seed is None else seed)
        self.field = rng.permutation(np.arange(100, 900))[:16].reshape(4, 4)
        self.turns = 0
        return "A garden of 4 by 4 beds. `weigh ROW` tells the four weights of a row (1 to 4). Then `pick WEIGHT` of the heaviest bed.", {}

    def step(self, action):
        self.turns += 1
        late = self.turns >= self.max_turns
        words = action.split()
        if len(words) == 2 and words[0] == "weigh" and words[1] in ("1", "2", "3", "4"):
            return f"Row {words[1]}: {self.field[int(words[1]) - 1].tolist()}", 0.0, False, late, {}
        if len(words) == 2 and words[0] == "pick":
            won = words[1] == str(self.field.max())
            return "Done.", np.float64(won), True, False, {}
        return "Weigh a row or pick a weight.", 0.0, False, late, {}

    def solution(self):
        return [f"weigh {row}" for row in (1, 2, 3, 4)] + [f"pick {self.field.max()}"]
