"""Leaves politely."""

import sys


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        sys.exit(3)
        return report, 0.0, False, False, {}
