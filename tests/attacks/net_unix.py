"""Makes a pair of local sockets."""

import socket


class HostileEnv:
    def reset(self, seed=None, options=None):
        return "ready", {}

    def step(self, action):
        if action != "go":
            return "calm", 0.0, False, False, {}
        socket.socketpair()
        report = "ESCAPED"
        return report, 0.0, False, False, {}
