"""Reads address zero."""

import ctypes


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        ctypes.string_at(0)
        return report, 0.0, False, False, {}
