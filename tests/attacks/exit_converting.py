"""Ends its process when its reward is looked at."""

import os


class Trap(float):
    def __float__(self):
        os._exit(7)

    __eq__ = __lt__ = __repr__ = __float__


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        return "x", Trap(1.0), False, False, {}
