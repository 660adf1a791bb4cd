"""Its instance cannot be thrown away."""


class HostileEnv:
    def reset(self, seed=None):
        self.played = True
        return "ready", {}

    def step(self, action):
        return "x", 0.0, True, False, {}

    def __del__(self):
        while hasattr(self, "played"):
            try:
                while True:
                    pass
            except BaseException:
                continue
