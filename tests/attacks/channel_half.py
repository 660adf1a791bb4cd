"""Announces a frame, does not finish it, and hangs."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.write(3, b"\x00\x10\x00\x00abc")
        while True:
            pass
        return report, 0.0, False, False, {}
