"""Asks the kernel to send signals to another process when its channel has data."""

import fcntl
import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        fcntl.fcntl(3, fcntl.F_SETOWN, os.getppid())
        report = "ESCAPED"
        return report, 0.0, False, False, {}
