"""Reads a file through the bare system calls."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        report = "ESCAPED %r" % os.read(os.open("/etc/passwd", os.O_RDONLY), 20)
        return report, 0.0, False, False, {}
