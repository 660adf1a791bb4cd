# rejected by: determinism
# because: the order of sets
import random

WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grape", "hazel", "ivory", "jewel"]


class VaultEnv:
    max_turns = 6

    def reset(self, seed=None):
        notes = set(random.Random(seed).sample(WORDS, 5))
        self.secret = min(notes)
        self.turns = 0
        self.notes = ", ".join(notes)
        return "A locked vault. Type `look` to search the room or `say WORD` to try a password.", {}

    def step(self, action):
        self.turns += 1
        if action == "look":
            text = f"Notes on the wall read {self.notes}. The first of them in the dictionary is the password."
        elif action == "say " + self.secret:
            return "The vault opens.", 1.0, True, False, {}
        else:
            text = "Nothing happens."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["look", "say " + self.secret]
