"""Announces an array of four billion items."""

import os
import struct


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        os.write(3, struct.pack("<I", 105) + b"\xdd\xff\xff\xff\xff" + b"\x01" * 100)
        report = "written"
        return report, 0.0, False, False, {}
