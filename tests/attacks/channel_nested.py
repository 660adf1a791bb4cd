"""Sends arrays within arrays."""

import os
import struct


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.write(3, struct.pack("<I", 60_000) + b"\x91" * 60_000)
        report = "written"
        return report, 0.0, False, False, {}
