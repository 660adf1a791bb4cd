"""Answers a request that was never made."""

import os
import struct


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        body = b"\x95\xcd\x7f\xff\x01\xc3\xc0\x90"
        os.write(3, struct.pack("<I", len(body)) + body)
        report = "written"
        return report, 0.0, False, False, {}
