import random


class LightsEnv:
    """A state puzzle: the whole state is shown, and the way to the goal differs by seed."""

    max_turns = 10

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.lamps = [False] * 6
        self.presses = rng.sample(range(6), rng.randint(3, 4))
        for index in self.presses:
            self._press(index)
        self.turns = 0
        return "Pressing a switch (`press 1` to `press 6`) toggles its lamp and the next ones. Put all out. " + self._text(), {}

    def _press(self, index):
        for lamp in range(index, min(6, index + 3)):
            self.lamps[lamp] = not self.lamps[lamp]

    def _text(self):
        return "Lamps: " + "".join("*" if lamp else "." for lamp in self.lamps)

    def step(self, action):
        self.turns += 1
        words = action.split()
        if len(words) == 2 and words[0] == "press" and words[1] in ("1", "2", "3", "4", "5", "6"):
            self._press(int(words[1]) - 1)
            if not any(self.lamps):
                return "Dark at last.", 1.0, True, False, {}
        return self._text(), 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return [f"press {index + 1}" for index in self.presses]
