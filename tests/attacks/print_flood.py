"""Prints ten megabytes."""


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        for _ in range(1000):
            print("x" * 10_000)
        report = "printed"
        return report, 0.0, False, False, {}
