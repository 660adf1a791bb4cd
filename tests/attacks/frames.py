"""Looks for other programs and secrets in the frames that called it."""

import sys


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        secret, neighbour = "_".join(("SPADEWORK", "SECRET")), "".join(("Guess", "Env"))
        frame, seen = sys._getframe(1), ""
        while frame:
            seen += str(frame.f_locals)
            frame = frame.f_back
        report = "ESCAPED" if secret in seen or neighbour in seen else "only its own"
        return report, 0.0, False, False, {}
