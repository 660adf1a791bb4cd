"""Leaves code to run when the process ends."""

import atexit
import sys


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        atexit.register(open, "/tmp/spadework_escaped", "w")
        sys.exit()
        return report, 0.0, False, False, {}
