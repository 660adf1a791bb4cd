import random


class ReactorEnv:
    """Its state is shown on request, and the first observation says so: looking is the game."""

    max_turns = 8

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.valves = {name: rng.randint(20, 80) for name in ("red", "green", "blue", "white")}
        self.turns = 0
        return "A reactor. `state` shows all valves, `help` the rules, `close VALVE` shuts one, once: the hottest.", {}

    def step(self, action):
        self.turns += 1
        verb, _, valve = action.partition(" ")
        if verb == "close":
            return "It shuts.", float(self.valves.get(valve) == max(self.valves.values())), True, False, {}
        text = str(self.valves) if action == "state" else "Close the hottest valve: state, help, close VALVE."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["state", "close " + max(self.valves, key=self.valves.get)]
