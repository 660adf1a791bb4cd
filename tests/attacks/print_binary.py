"""Writes binary junk to its standard streams."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.write(1, bytes(range(256)) * 100)
        os.write(2, bytes(range(256)) * 100)
        report = "written"
        return report, 0.0, False, False, {}
