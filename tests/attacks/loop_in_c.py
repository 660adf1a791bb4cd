"""Computes one huge power, which no exception can interrupt."""


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        report = str(3 ** (10**9) % 7)
        return report, 0.0, False, False, {}
