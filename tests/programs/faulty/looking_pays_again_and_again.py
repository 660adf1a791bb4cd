# rejected by: solvable
# because: pay for progress once, not for every repetition
import random

WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grape", "hazel", "ivory", "jewel"]


class VaultEnv:
    max_turns = 6

    def reset(self, seed=None):
        self.secret = random.Random(seed).choice(WORDS)
        self.turns = 0
        return "A locked vault. Type `look` to search the room or `say WORD` to try a password.", {}

    def step(self, action):
        self.turns += 1
        if action == "look":
            return f"A note reads {self.secret}.", 0.3, False, self.turns >= self.max_turns, {}
        elif action == "say " + self.secret:
            return "The vault opens.", 1.0, True, False, {}
        else:
            text = "Nothing happens."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["look", "say " + self.secret]
