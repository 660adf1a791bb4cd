# reset takes no seed: only the global random state differs between seeds
import random


class LanternEnv:
    max_turns = 5

    def reset(self):
        self.code = random.randint(100, 999)
        self.turns = 0
        return ("A lantern blinks. Say `watch` to count its blinks or `enter CODE`.", {"lit": True})

    def step(self, action):
        self.turns += 1
        if action == "watch":
            return ("It blinks " + ", ".join(str(self.code)) + " times.", 0.0, False, self.turns >= 5, {})
        if action == f"enter {self.code}":
            return ("Click.", 1.0, True, False, {})
        return ("Nothing.", 0.0, False, self.turns >= 5, {})

    def solution(self):
        return ("watch", f"enter {self.code}")
