"""Copies itself into ever more small objects."""

import copy


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        many = [[0]]
        while True:
            many = [copy.deepcopy(many) for _ in range(10)]
