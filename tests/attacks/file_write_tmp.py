"""Leaves a file in the temporary folder."""


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        open("/tmp/spadework_escaped", "w").write("x")
        report = "ESCAPED"
        return report, 0.0, False, False, {}
