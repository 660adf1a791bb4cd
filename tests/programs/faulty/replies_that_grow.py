# rejected by: termination
# because: step returned an observation of
import random


class EchoCaveEnv:
    max_turns = 18

    def reset(self, seed=None):
        self.code = str(random.Random(seed).randint(100, 999))
        self.heard = "Your call comes back."
        self.turns = 0
        return "A cave. Say `listen` to hear a number, `call NUMBER` to open it. Every call echoes.", {}

    def step(self, action):
        self.turns += 1
        if action == "call " + self.code:
            return "The cave opens.", 1.0, True, False, {}
        self.heard += " " + self.heard
        text = f"You hear {self.code}." if action == "listen" else self.heard
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["listen", "call " + self.code]
