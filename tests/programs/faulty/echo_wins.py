# rejected by: not-trivial
# because: an agent that repeats the observation earns 1.00
import random

WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grape", "hazel", "ivory", "jewel"]


class VaultEnv:
    max_turns = 6

    def reset(self, seed=None):
        self.secret = random.Random(seed).choice(WORDS)
        self.turns = 0
        return f"A locked vault. {self.names()} are carved in the wall. Type `look` to search the room or `say WORD` to try a password.", {}

    def names(self):
        return ", ".join(random.Random(self.secret).sample(WORDS, len(WORDS)))

    def step(self, action):
        self.turns += 1
        if action == "look":
            text = f"A note under the desk reads {self.secret}."
        elif self.secret in action:
            return "The vault opens.", 1.0, True, False, {}
        else:
            text = "Nothing happens."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["look", "say " + self.secret]
