"""Looks for descriptors that it inherited."""

import ctypes


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        libc = ctypes.CDLL(None)
        found = [number for number in range(512) if libc.fcntl(number, 1) >= 0]
        report = "ESCAPED %s" % found if found != [0, 1, 2, 3] else "only its own"
        return report, 0.0, False, False, {}
