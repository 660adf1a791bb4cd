"""Answers its own request with values of the wrong types."""

import os
import struct


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        for sequence in range(1, 100):
            body = b"\x95" + bytes([sequence]) + b"\x01\xc3\x95\xc0\xc0\xc0\xc0\xc0\x90"
            os.write(3, struct.pack("<I", len(body)) + body)
        report = "written"
        return report, 0.0, False, False, {}
