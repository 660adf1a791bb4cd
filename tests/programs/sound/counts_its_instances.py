import random

CACHE = {}


class ArchiveEnv:
    """State of the class and of the module outlives an instance, but each play has a class and a module of its own."""

    max_turns = 5
    opened = 0

    def reset(self, seed=None):
        ArchiveEnv.opened += 1
        CACHE.setdefault("shelf", random.Random(seed).randint(100, 999))
        self.shelf = CACHE["shelf"]
        self.turns = 0
        return f"Visit {ArchiveEnv.opened}. Say `ask` for the shelf of your book, `fetch N` to take it.", {}

    def step(self, action):
        self.turns += 1
        if action == f"fetch {self.shelf}":
            return "Here it is.", 1.0, True, False, {}
        text = f"Shelf {self.shelf}." if action == "ask" else "Ask or fetch."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["ask", f"fetch {self.shelf}"]
