import random


class DialEnv:
    """As few instances as are let through: eight, all of which begin alike."""

    max_turns = 6

    def reset(self, seed=None):
        self.mark = random.Random(seed).randint(1, 8)
        self.turns = 0
        return "A dial has eight marks, 1 to 8. `feel N` tells whether the right one is higher; `set N` once.", {}

    def step(self, action):
        self.turns += 1
        verb, _, number = action.partition(" ")
        if verb == "set":
            return "It clicks.", float(number == str(self.mark)), True, False, {}
        text = "Feel or set."
        if verb == "feel" and number in list("12345678"):
            text = "Higher." if self.mark > int(number) else "Not higher."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["feel 4", "feel 2" if self.mark <= 4 else "feel 6", f"set {self.mark}"]
