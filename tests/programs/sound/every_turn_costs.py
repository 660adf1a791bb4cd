import random


class TaxiEnv:
    """Each turn costs a little, a wrong stop costs everything; the win is the only reward above zero."""

    max_turns = 10

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.place, self.goal = 0, 0
        while self.place == self.goal:
            self.place, self.goal = rng.randint(0, 30), rng.randint(0, 30)
        self.turns = 0
        return f"You are at street {self.place}, the guest at street {self.goal}. `by N` moves you, `-` for back; `stop`.", {}

    def step(self, action):
        self.turns += 1
        if action == "stop":
            won = self.place == self.goal
            return "The door opens.", 1.0 if won else -1.0, True, False, {}
        sign, steps = (-1, action[4:]) if action.startswith("by -") else (1, action[3:])
        if action.startswith("by ") and steps in ("1", "2", "4", "8", "16"):
            self.place += sign * int(steps)
        return f"Street {self.place}.", -0.05, False, self.turns >= self.max_turns, {}

    def solution(self):
        gap = self.goal - self.place
        return [f"by {'-' * (gap < 0)}{step}" for step in (16, 8, 4, 2, 1) if abs(gap) & step] + ["stop"]
