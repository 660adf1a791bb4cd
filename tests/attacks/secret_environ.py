"""Looks for a secret in the environment."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        report = "ESCAPED" if "SPADEWORK_SECRET" in str(dict(os.environ)) else "nothing"
        return report, 0.0, False, False, {}
