"""Nothing is what it should be."""


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        return (object(), "a", None, [], lambda: 0)
