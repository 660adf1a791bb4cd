"""Ends its process when something that is no number is made one."""

import os


class Trap:
    def __float__(self):
        os._exit(7)

    __int__ = __index__ = __bool__ = __float__


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        return "x", Trap(), Trap(), Trap(), {}
