"""Ignores the deadline's signal and loops."""

import signal


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        while True:
            pass
        return report, 0.0, False, False, {}
