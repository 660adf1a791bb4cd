"""Overflows the stack of the interpreter."""

import sys


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        sys.setrecursionlimit(10**9)
        nest = []
        for _ in range(10**6):
            nest = [nest]
        report = repr(nest)[:5]
        return report, 0.0, False, False, {}
