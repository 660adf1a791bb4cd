"""Deletes a file of the host."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.unlink("/tmp/spadework_canary")
        report = "ESCAPED"
        return report, 0.0, False, False, {}
