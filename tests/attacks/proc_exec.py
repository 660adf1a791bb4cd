"""Becomes a shell."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.execv("/bin/sh", ["sh", "-c", "touch /tmp/spadework_escaped"])
        return report, 0.0, False, False, {}
