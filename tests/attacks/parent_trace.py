"""Attaches to its parent as a debugger."""

import ctypes
import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        if ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) != 0:
            raise OSError("refused")
        report = "ESCAPED"
        return report, 0.0, False, False, {}
