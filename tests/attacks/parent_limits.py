"""Changes the resource limits of its parent."""

import os
import resource


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 1))
        report = "ESCAPED"
        return report, 0.0, False, False, {}
