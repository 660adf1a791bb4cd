"""Ends its process as if all were well."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os._exit(0)
        return report, 0.0, False, False, {}
