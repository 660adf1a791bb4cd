"""Reads the requests that are meant for others."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.read(3, 1 << 16)
        report = "read"
        return report, 0.0, False, False, {}
