"""Kills its process group."""

import os
import signal


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.killpg(0, signal.SIGKILL)
        report = "ESCAPED"
        return report, 0.0, False, False, {}
