"""Starts a thread that outlives the call."""

import threading


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        threading.Thread(target=lambda: None).start()
        report = "ESCAPED"
        return report, 0.0, False, False, {}
