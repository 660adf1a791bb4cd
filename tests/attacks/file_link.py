"""Makes a symbolic link."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.symlink("/etc/passwd", "/tmp/spadework_escaped")
        report = "ESCAPED"
        return report, 0.0, False, False, {}
