"""Blocks every signal and loops."""

import signal


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
        while True:
            pass
        return report, 0.0, False, False, {}
