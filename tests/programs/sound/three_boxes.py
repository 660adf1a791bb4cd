import random

BOXES = ["oak", "iron", "clay", "glass", "tin", "silk", "bone", "cork", "slate"]


class CoinBoxEnv:
    """A fair game of three choices: who does not look wins every third time."""

    max_turns = 4

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.boxes = rng.sample(BOXES, 3)
        self.place = rng.choice(self.boxes)
        self.turns = 0
        return f"A coin lies in one box: {', '.join(self.boxes)}. Say `peek BOX` to look into one, `take BOX` once.", {}

    def step(self, action):
        self.turns += 1
        verb, _, box = action.partition(" ")
        if verb == "take":
            return "You open it.", float(box == self.place), True, False, {}
        text = "Peek or take."
        if verb == "peek" and box in self.boxes:
            text = "It glitters." if box == self.place else "Empty."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return [f"peek {box}" for box in self.boxes[:2]] + ["take " + self.place]
