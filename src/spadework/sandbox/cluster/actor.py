"""What runs on a node: a sandbox whose client's bytes arrive and leave in calls.

Ray runs an actor with `async` methods in one event loop, calls beside each other and in no certain order, and starts
it again, without its memory, when its process or its node has died.
"""

from __future__ import annotations

import asyncio
import os
import platform

from spadework.sandbox.cluster.sequence import InOrder
from spadework.sandbox.limits import Limits
from spadework.sandbox.remote.served import ServedClient


class SandboxActor:
    """Serves one client at a time. ``session`` numbers its connections; what belongs to an earlier one is dropped."""

    def __init__(self, allowed: Limits) -> None:
        self._allowed = allowed
        self._session = 0
        self._served: _Served | None = None

    async def begin(self, session: int) -> tuple[str, int]:
        """Await a client in place of any other: (name of the node, process id)."""
        if session > self._session:
            if self._served is not None:
                self._served.client.stop("the client connected anew")
            self._session = session
            self._served = _Served(self._allowed, session)
        return platform.node(), os.getpid()

    async def write(self, session: int, number: int, data: bytes) -> None:
        """Bytes of the client, numbered from 0; none are its end."""
        if self._served is not None and session == self._session:
            self._served.receive(number, data)

    async def read(self, session: int) -> bytes:
        """Bytes for the client as soon as there are any; none at the end of the session. One call at a time."""
        if self._served is None or session != self._session:
            return b""
        return await self._served.outgoing.take()


class _Served:
    """The server's side of one session."""

    def __init__(self, allowed: Limits, session: int) -> None:
        self.outgoing = Outgoing()
        self.client = ServedClient(f"session {session}", allowed, "", _say)
        self._incoming = InOrder()
        self.client.connection_made(self.outgoing)

    def receive(self, number: int, data: bytes) -> None:
        try:
            for part in self._incoming.put(number, data):
                if part:
                    self.client.data_received(part)
                else:
                    self.client.eof_received()
        except Exception as error:
            # Nobody waits for this call: the client has to be told.
            self.client.stop(f"the actor failed: {type(error).__name__}: {error}")
            raise


class Outgoing(asyncio.Transport):
    """Holds what a server writes until the client asks for it."""

    def __init__(self) -> None:
        super().__init__()
        self._data = bytearray()
        self._filled = asyncio.Event()
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._data += data
        self._filled.set()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        self._filled.set()

    def abort(self) -> None:
        self.close()

    async def take(self) -> bytes:
        """Everything there is, as soon as there is anything; nothing once the end is reached."""
        await self._filled.wait()
        data = bytes(self._data)
        self._data.clear()
        if not self._closing:
            self._filled.clear()
        return data


def _say(line: str) -> None:
    """Into the actor's log."""
    print(line, flush=True)
