"""Puts an object into info that cannot be shown."""

class Endless:
    def __repr__(self):
        while True:
            pass

    __str__ = __hash__ = __repr__


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        return "x", 0.0, False, False, {"object": Endless(), Endless(): 1}
