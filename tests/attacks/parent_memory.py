"""Reads the memory of its parent."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        report = "ESCAPED %r" % open("/proc/%d/maps" % os.getppid()).read(20)
        return report, 0.0, False, False, {}
