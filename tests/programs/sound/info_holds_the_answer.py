import random


class SubmarineEnv:
    """`info` is for whoever runs the program; nobody who plays it is shown it."""

    max_turns = 8

    def reset(self, seed=None):
        self.depth = random.Random(seed).randint(10, 99)
        self.turns = 0
        return "A wreck lies 10 to 99 metres deep. `ping N`: does it lie deeper? `dive N` once.", {"depth": self.depth}

    def step(self, action):
        self.turns += 1
        info = {"depth": self.depth, "solved": False}
        verb, _, number = action.partition(" ")
        if verb == "dive":
            won = number == str(self.depth)
            return "You dive.", float(won), True, False, {**info, "solved": won}
        late = self.turns >= self.max_turns
        if verb != "ping" or number not in map(str, range(10, 100)):
            return "Ping or dive.", 0.0, False, late, info
        return "Deeper." if self.depth > int(number) else "Not deeper.", 0.0, False, late, info

    def solution(self):
        low, high, pings = 10, 99, []
        while low < high:
            middle = (low + high) // 2
            pings.append(f"ping {middle}")
            low, high = (middle + 1, high) if self.depth > middle else (low, middle)
        return [*pings, f"dive {self.depth}"]
