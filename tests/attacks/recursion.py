"""Recurses for ever."""


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        report = self.step(action)[0]
        return report, 0.0, False, False, {}
