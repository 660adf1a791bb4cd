"""Pretends that somebody pressed Ctrl-C."""


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        raise KeyboardInterrupt
        return report, 0.0, False, False, {}
