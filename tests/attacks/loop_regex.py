"""Backtracks for ever."""

import re


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        re.match("(a+)+$", "a" * 60 + "b")
        report = "done"
        return report, 0.0, False, False, {}
