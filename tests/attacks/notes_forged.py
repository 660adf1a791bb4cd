"""Blames every other play before it ends its process."""

import os
import sys


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        frame = sys._getframe()
        while "notes" not in frame.f_locals or "channel" not in frame.f_locals:
            frame = frame.f_back
        notes = frame.f_locals["notes"]
        notes[:] = b"\xff" * len(notes)
        os._exit(0)
