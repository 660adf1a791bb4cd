"""Makes a namespace in which it would be root."""

import ctypes


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        if ctypes.CDLL(None).unshare(0x10000000) != 0:
            raise OSError("refused")
        report = "ESCAPED"
        return report, 0.0, False, False, {}
