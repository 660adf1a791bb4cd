# rejected by: not-trivial
# because: an agent that repeats what wins on another seed earns
import random


class DoorEnv:
    max_turns = 4

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.door = rng.choice(["left", "right"])
        self.hall = rng.randint(1, 99)
        self.turns = 0
        return f"Hall {self.hall}. A prize is behind the left or the right door. Say `listen`, or `open DOOR` once.", {}

    def step(self, action):
        self.turns += 1
        if action.startswith("open"):
            return "It opens.", float(action == "open " + self.door), True, False, {}
        text = f"Humming from the {self.door}." if action == "listen" else "Nothing."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["listen", "open " + self.door]
