"""One connection as messages, on either side."""

from __future__ import annotations

import asyncio
import socket
import sys
from abc import ABC, abstractmethod
from typing import Literal, cast

from spadework.sandbox.remote.messages import INTRODUCTION_BYTES
from spadework.sandbox.wire import FrameReader, ProtocolBreach

PROBE_AFTER_S = 15
UNREACHABLE_S = 45
"""So long after its last sign of life a machine that fell silent counts as gone."""
LINGER_S = 5.0
"""How long the last message may take to leave."""


class Link(asyncio.Protocol, ABC):
    """Messages sent in one turn of the event loop leave in one write.

    After a breach by the other side nothing more is read.
    """

    def __init__(self, noun: str, unicode_errors: Literal["strict", "surrogatepass"]) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(INTRODUCTION_BYTES, noun, unicode_errors)
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._deaf = False

    @abstractmethod
    def received(self, message: object) -> None:
        """A message has arrived. May raise ProtocolBreach."""

    @abstractmethod
    def breached(self, breach: ProtocolBreach) -> None:
        """The other side does not follow the protocol."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connection: socket.socket | None = transport.get_extra_info("socket")
        if connection is not None:
            _notice_dead_machines(connection)

    def accept_up_to(self, max_bytes: int) -> None:
        """From now on messages may be so long."""
        self._reader.max_bytes = max_bytes

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        try:
            for message in self._reader.feed(data):
                self.received(message)
        except ProtocolBreach as breach:
            self._deaf = True
            self.breached(breach)

    def send(self, message: bytes) -> None:
        """Queue an encoded message; it is dropped if the connection has ended."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(message)

    def hang_up(self) -> None:
        """Close the connection once everything has left."""
        self._flush()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._loop.call_later(LINGER_S, self._transport.abort)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(unsent))


def _notice_dead_machines(connection: socket.socket) -> None:
    """A peer that vanished without a word must not be waited for."""
    if connection.family == socket.AF_UNIX or sys.platform != "linux":
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_AFTER_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_AFTER_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREACHABLE_S * 1000)
