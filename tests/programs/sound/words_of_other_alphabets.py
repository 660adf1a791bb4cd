import random

WORDS = ["café", "Ärger", "мир", "кот", "你好", "山川", "žába", "ñandú", "Ωμέγα", "שלום", "hôtel", "gül"]


class HarbourEnv:
    """Answers in many alphabets, with accents that count."""

    max_turns = 6

    def reset(self, seed=None):
        self.ships = random.Random(seed).sample(WORDS, 3)
        self.turns = 0
        return "Drei Schiffe im Hafen. `list` names them; `board NAME` the one that comes last in the list.", {}

    def step(self, action):
        self.turns += 1
        if action.startswith("board "):
            return "Ahoy!", float(action == "board " + self.ships[-1]), True, False, {}
        text = " → ".join(self.ships) if action == "list" else "¿Qué?"
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["list", "board " + self.ships[-1]]
