"""Kills itself."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.kill(os.getpid(), 9)
        return report, 0.0, False, False, {}
