# rejected by: solvable
# because: is cut off at turn 5
import random

TOOLS = ["saw", "drill", "file", "hammer", "rasp"]


class BenchEnv:
    max_turns = 5

    def reset(self, seed=None):
        self.order = random.Random(seed).sample(TOOLS, 5)
        self.used = []
        ranks = ", ".join(f"{tool} {self.order.index(tool) + 1}" for tool in TOOLS)
        return f"Use all tools in the order of their ranks: {ranks}. Say `use TOOL`; you have 5 turns.", {}

    def step(self, action):
        self.used.append(action.removeprefix("use "))
        if len(self.used) >= self.max_turns:
            return "Time is up.", float(self.used == self.order), False, True, {}
        if self.used == self.order:
            return "Done.", 1.0, True, False, {}
        return "Go on.", 0.0, False, False, {}

    def solution(self):
        return ["use " + tool for tool in self.order]
