"""Connects to a local port."""

import socket


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        socket.create_connection(("127.0.0.1", 9), 1)
        report = "ESCAPED"
        return report, 0.0, False, False, {}
