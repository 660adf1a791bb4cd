"""Writes junk to its channel."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.write(3, b"\xff" * 5000)
        report = "written"
        return report, 0.0, False, False, {}
