"""Lists a folder."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        report = "ESCAPED %s" % os.listdir("/")
        return report, 0.0, False, False, {}
