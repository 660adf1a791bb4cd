"""Forks for ever."""

import os


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        while True:
            try:
                os.fork()
            except OSError as error:
                report = "refused %s" % error
                break
        return report, 0.0, False, False, {}
