import random


class LedgerEnv:
    """A wall of text: twelve thousand characters at first, and what is asked for stands at another place every time."""

    max_turns = 4

    def reset(self, seed=None):
        rng = random.Random(seed)
        names = [first + last for first in ("Al", "Be", "Ca", "Do", "Ed", "Fa") for last in ("bin", "dor", "mar", "ton")]
        rng.shuffle(names)
        self.owed = {name: 0 for name in names}
        lines = []
        for day in range(1, 301):
            name, coins = rng.choice(names), rng.randint(1, 9)
            self.owed[name] += coins
            lines.append(f"Day {day}: {name} borrowed {coins} coins.")
        self.name = rng.choice(names)
        self.turns = 0
        return "\n".join(lines) + f"\nHow much does {self.name} owe in all? Say `owes N`.", {}

    def step(self, action):
        self.turns += 1
        if action.strip() == f"owes {self.owed[self.name]}":
            return "Right.", 1.0, True, False, {}
        return "No.", 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return [f"owes {self.owed[self.name]}"]
