"""Looks for a secret in every object of its interpreter."""

import gc


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        needle = "_".join(("SPADEWORK", "SECRET"))
        found = [text for text in map(str, gc.get_objects()[:50_000]) if needle in text]
        report = "ESCAPED" if found else "nothing"
        return report, 0.0, False, False, {}
