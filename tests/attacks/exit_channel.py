"""Closes its channel and lives on."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.close(3)
        while True:
            pass
        return report, 0.0, False, False, {}
