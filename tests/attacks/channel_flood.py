"""Writes empty frames for ever."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        while True:
            os.write(3, b"\0\0\0\0")
        return report, 0.0, False, False, {}
