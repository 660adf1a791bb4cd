import random

WAYS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}


class MeadowEnv:
    """Commands in any case and shortened to one letter: lenient about the form, strict about the way."""

    max_turns = 12

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.x = self.y = self.turns = 0
        self.goal = (rng.choice([-3, -2, 2, 3]), rng.choice([-3, -2, 2, 3]))
        return "You stand in fog. Say north, south, east or west (or n, s, e, w). The bell is somewhere; go to it.", {}

    def step(self, action):
        self.turns += 1
        said = action.strip().lower()
        way = next((move for name, move in WAYS.items() if said and name.startswith(said)), (0, 0))
        self.x, self.y = self.x + way[0], self.y + way[1]
        if (self.x, self.y) == self.goal:
            return "Clang!", 1.0, True, False, {}
        distance = abs(self.goal[0] - self.x) + abs(self.goal[1] - self.y)
        return f"The bell sounds {distance} steps away.", 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        wide, high = self.goal
        return ["east" if wide > 0 else "west"] * abs(wide) + ["north" if high > 0 else "south"] * abs(high)
