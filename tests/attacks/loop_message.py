"""Raises an exception whose message never ends."""

class Endless(Exception):
    def __str__(self):
        while True:
            pass


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        raise Endless
        return report, 0.0, False, False, {}
