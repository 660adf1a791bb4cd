"""Runs a shell."""

import subprocess


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        subprocess.run(["/bin/sh", "-c", "touch /tmp/spadework_escaped"], check=True)
        report = "ESCAPED"
        return report, 0.0, False, False, {}
