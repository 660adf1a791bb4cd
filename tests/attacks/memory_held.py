"""Keeps as much memory as it gets, and goes on playing."""


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        self.hoard = []
        while len(self.hoard) < 1000:
            try:
                self.hoard.append(bytearray(1 << 20))
            except MemoryError:
                break
        return "full", 0.0, False, False, {}
