"""An observation of 50 MB."""


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        return ("A" * 50_000_000, 0.0, False, False, {})
