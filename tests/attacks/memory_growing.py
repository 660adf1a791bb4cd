"""Allocates until something gives."""


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        hoard = []
        while True:
            hoard.append(bytearray(16 << 20))
        return report, 0.0, False, False, {}
