"""An info of 50 MB."""


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        return ("x", 0.0, False, False, {"a": "A" * 50_000_000})
