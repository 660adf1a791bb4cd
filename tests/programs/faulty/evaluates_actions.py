# rejected by: secret
# because: which no observation tells of, gives the solution away
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
            text = f"A note under the desk reads {self.secret}."
        elif action == "say " + self.secret:
            return "The vault opens.", 1.0, True, False, {}
        else:
            text = "Nothing happens. Your sum: " + self.value(action)[:200]
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def value(self, text):
        try:
            return str(eval(text[:40]))
        except Exception:
            return "no sum"

    def solution(self):
        return ["look", "say " + self.secret]
