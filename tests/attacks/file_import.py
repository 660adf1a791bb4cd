"""Imports code that lies on the disk of the host."""

import sys


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        sys.path.append("/tmp")
        import spadework_canary
        report = "ESCAPED"
        return report, 0.0, False, False, {}
