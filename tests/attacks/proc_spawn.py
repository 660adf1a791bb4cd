"""Starts a shell through posix_spawn."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.posix_spawn("/bin/sh", ["sh", "-c", "touch /tmp/spadework_escaped"], {})
        report = "ESCAPED"
        return report, 0.0, False, False, {}
