"""Never finishes resetting."""


class HostileEnv:
    def reset(self, seed=None):
        while True:
            pass

    def step(self, action):
        return "x", 0.0, True, False, {}
