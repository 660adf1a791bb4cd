import random


class MarketEnv:
    """The right choice is listed among others, in an order that varies; prices must be asked for."""

    max_turns = 9
    GOODS = ("figs", "salt", "rope", "lamp", "wool", "tiles")

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.price = dict(zip(self.GOODS, rng.sample(range(3, 60), len(self.GOODS))))
        self.shown = rng.sample(self.GOODS, len(self.GOODS))
        self.turns = 0
        return "Buy the cheapest of: " + ", ".join(self.shown) + ". Say `ask GOOD` for a price, `buy GOOD` once.", {}

    def step(self, action):
        self.turns += 1
        verb, _, good = action.partition(" ")
        if verb not in ("ask", "buy") or good not in self.price:
            return "The merchant shrugs.", 0.0, False, self.turns >= self.max_turns, {}
        if verb == "ask":
            return f"The {good} cost {self.price[good]} coins.", 0.05, False, self.turns >= self.max_turns, {}
        cheapest = min(self.price.values())
        return "Sold.", 1.0 if self.price[good] == cheapest else 0.0, True, False, {}

    def solution(self):
        best = min(self.price, key=self.price.get)
        return [f"ask {good}" for good in self.shown] + [f"buy {best}"]
