"""Removes every module."""

import sys


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        sys.modules.clear()
        report = "wiped"
        return report, 0.0, False, False, {}
