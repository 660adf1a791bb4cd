"""Gives itself more memory."""

import resource


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))
        report = "ESCAPED"
        return report, 0.0, False, False, {}
