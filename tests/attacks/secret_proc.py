"""Looks for a secret in what the kernel tells of it."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        report = "ESCAPED %r" % open("/proc/self/environ", "rb").read(80)
        return report, 0.0, False, False, {}
