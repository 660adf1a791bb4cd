"""Catches every exception, the deadline too."""


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        while True:
            try:
                while True:
                    try:
                        while True:
                            pass
                    except BaseException:
                        continue
            except BaseException:
                continue
        return report, 0.0, False, False, {}
