import random


class CellarLockEnv:
    """A lock of one hidden number. A gauge says whether a number is too low or too high."""

    max_turns = 12

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.code = rng.randint(1, 60)
        self.turns = 0
        rules = (
            "A cellar door is locked with a number from 1 to 60. Find it and open the door within 12 turns.\n"
            "Commands: `gauge N` compares N with the number, `open N` tries the lock. A wrong try jams it for good."
        )
        return rules, {}

    def step(self, action):
        self.turns += 1
        verb, _, rest = action.strip().partition(" ")
        number = int(rest) if rest.isascii() and rest.isdigit() and len(rest) < 4 else None
        if number is None or verb not in ("gauge", "open"):
            return self._answer("Say `gauge N` or `open N` with a number from 1 to 60.", 0.0, False)
        if verb == "open":
            won = number == self.code
            return self._answer("The door opens." if won else "The lock jams.", float(won), True)
        if number == self.code:
            return self._answer("The gauge stands still.", 0.0, False)
        return self._answer("Too low." if number < self.code else "Too high.", 0.0, False)

    def solution(self):
        low, high, actions = 1, 60, []
        while low < high:
            middle = (low + high) // 2
            actions.append(f"gauge {middle}")
            if middle == self.code:
                low = high = middle
            elif middle < self.code:
                low = middle + 1
            else:
                high = middle - 1
        return [*actions, f"open {self.code}"]

    def _answer(self, observation, reward, terminated):
        truncated = not terminated and self.turns >= self.max_turns
        return observation, reward, terminated, truncated, {}
