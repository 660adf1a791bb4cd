"""Makes randomness predictable for everybody."""

import random


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        random.Random = None
        random.random = lambda: 0.5
        report = "patched"
        return report, 0.0, False, False, {}
