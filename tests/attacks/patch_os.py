"""Replaces the functions that its process answers with."""

import os
import struct


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.write = os.read = struct.pack = None
        report = "patched"
        return report, 0.0, False, False, {}
