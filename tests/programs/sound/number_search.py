import random


class ThermometerEnv:
    """Find a temperature by asking whether it is warmer or colder."""

    max_turns = 8

    def reset(self, seed=None, options=None):
        self.target = random.Random(seed).randint(1, 60)
        self.turns = 0
        return "The oven is between 1 and 60 degrees. Reply with `guess N`; you hear warmer or colder.", {}

    def step(self, action):
        self.turns += 1
        try:
            guess = int(action.removeprefix("guess "))
        except ValueError:
            return "Please reply with guess and a number.", 0.0, False, self.turns >= self.max_turns, {}
        if guess == self.target:
            return "Exactly right!", 1.0, True, False, {"turns": self.turns}
        text = "It is warmer than that." if guess < self.target else "It is colder than that."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return f"guess {self.target}"
