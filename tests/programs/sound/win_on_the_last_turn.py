import random

TOOLS = ["saw", "drill", "file", "hammer", "rasp"]


class BenchEnv:
    """Winning takes every turn there is; the win comes before the count of turns."""

    max_turns = 5

    def reset(self, seed=None):
        self.order = random.Random(seed).sample(TOOLS, 5)
        self.used = []
        ranks = ", ".join(f"{tool} {self.order.index(tool) + 1}" for tool in TOOLS)
        return f"Use all tools in the order of their ranks: {ranks}. Say `use TOOL`; you have 5 turns.", {}

    def step(self, action):
        self.used.append(action.removeprefix("use "))
        if self.used == self.order:
            return "Done.", 1.0, True, False, {}
        return "Go on.", 0.0, False, len(self.used) >= self.max_turns, {}

    def solution(self):
        return ["use " + tool for tool in self.order]
