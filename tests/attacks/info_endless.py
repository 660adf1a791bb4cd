"""An info that contains itself."""

ENDLESS = {}
ENDLESS["self"] = ENDLESS


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        return ("x", 0.0, False, False, ENDLESS)
