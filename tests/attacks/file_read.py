"""Reads a file of the system."""


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        report = "ESCAPED " + open("/etc/passwd").read(20)
        return report, 0.0, False, False, {}
