"""When requests are sent: where many are in flight they wait for each other, so that many travel together.

A process that wakes up for each request costs more CPU than most steps. Where little is in flight nothing waits.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

MANY = 16
GATHER_S = 0.0005


class Sender(Protocol):
    def send(self) -> None: ...


class Traffic:
    """What all workers of a sandbox have in flight. ``in_flight`` counts requests that were sent and not answered."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: set[Sender] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.in_flight = 0

    def send(self, sender: Sender) -> None:
        """Now, or together with others within `GATHER_S`."""
        if self.in_flight < MANY:
            sender.send()
            return
        self._waiting.add(sender)
        if self._timer is None:
            self._timer = self._loop.call_later(GATHER_S, self._send_all)

    def close(self) -> None:
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send_all(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, set()
        for sender in waiting:
            sender.send()
