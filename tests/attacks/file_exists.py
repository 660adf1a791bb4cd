"""Learns which files exist."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        report = "ESCAPED" if os.path.exists("/etc/passwd") else "nothing there"
        return report, 0.0, False, False, {}
