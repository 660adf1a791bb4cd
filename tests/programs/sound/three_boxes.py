import random

BOXES = ["left", "middle", "right"]


class CoinBoxEnv:
    """A fair game of three choices: who does not look wins every third time."""

    max_turns = 4

    def reset(self, seed=None):
        self.place = random.Random(seed).choice(BOXES)
        self.turns = 0
        return "A coin lies in the left, middle or right box. Say `peek BOX` to look into one, `take BOX` once.", {}

    def step(self, action):
        self.turns += 1
        verb, _, box = action.partition(" ")
        if verb == "take":
            return "You open it.", float(box == self.place), True, False, {}
        text = "Peek or take."
        if verb == "peek" and box in BOXES:
            text = "It glitters." if box == self.place else "Empty."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["peek left", "peek middle", "take " + self.place]
