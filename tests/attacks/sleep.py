"""Sleeps for a week."""

import time


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        time.sleep(6e5)
        return report, 0.0, False, False, {}
