import random
from collections import deque


class CaveEnv:
    """Find the way out of a cave whose map is only seen room by room."""

    max_turns = 14

    def reset(self, seed=None):
        rng = random.Random(seed)
        names = ["moss", "drip", "bone", "salt", "echo", "dusk", "coal", "fern", "iron"]
        rng.shuffle(names)
        self.exits = {name: [] for name in names}
        for index in range(1, len(names)):
            self._connect(names[index], names[rng.randrange(max(0, index - 2), index)])
        self.here, self.goal = names[0], names[-1]
        self.turns = 0
        return f"You are in the {self.here} room; doors: {self.doors()}. Find daylight. Reply: go ROOM.", {}

    def _connect(self, left, right):
        self.exits[left].append(right)
        self.exits[right].append(left)

    def doors(self):
        return ", ".join(sorted(self.exits[self.here]))

    def step(self, action):
        self.turns += 1
        target = action.lower().removeprefix("go ").strip()
        if target not in self.exits[self.here]:
            return f"No such door. Doors: {self.doors()}.", 0.0, False, self.turns >= self.max_turns, {}
        self.here = target
        if self.here == self.goal:
            return "Daylight!", 1.0, True, False, {}
        return f"You are in the {self.here} room; doors: {self.doors()}.", 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        before = {self.here: None}
        queue = deque([self.here])
        while queue:
            room = queue.popleft()
            for door in self.exits[room]:
                if door not in before:
                    before[door] = room
                    queue.append(door)
        path = [self.goal]
        while before[path[-1]] is not None:
            path.append(before[path[-1]])
        return ["go " + room for room in path[-2::-1]]
