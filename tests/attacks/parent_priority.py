"""Slows its parent down."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)
        report = "ESCAPED"
        return report, 0.0, False, False, {}
