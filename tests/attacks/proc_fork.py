"""Forks once."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        child = os.fork()
        if child == 0:
            os._exit(0)
        report = "ESCAPED"
        return report, 0.0, False, False, {}
