"""The client's end of a stream of bytes through an actor's calls."""

from __future__ import annotations

import asyncio
from typing import Any

from spadework.sandbox.outcomes import InfrastructureFault


class ActorTransport(asyncio.Transport):
    """Stands where a socket's transport would: ``protocol`` hears what `SandboxActor.read` gives, until its end.

    ``actor`` is the handle of a `SandboxActor` on which ``session`` has begun.
    """

    def __init__(self, actor: Any, session: int, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._actor = actor
        self._session = session
        self._protocol = protocol
        self._written = 0
        self._closing = False
        self._reading = asyncio.get_running_loop().create_task(self._read())

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._send(bytes(data))

    def write_eof(self) -> None:
        self._send(b"")

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Tell the actor that the session is over, and hear nothing more of it."""
        if not self._closing:
            self.write_eof()
            self._closing = True
            self._reading.cancel()

    def abort(self) -> None:
        self.close()

    def _send(self, data: bytes) -> None:
        """The call's own result says nothing: the loss of an actor shows in the reading."""
        self._actor.write.remote(self._session, self._written, data)
        self._written += 1

    async def _read(self) -> None:
        error: Exception | None = None
        try:
            while data := await self._actor.read.remote(self._session):
                self._protocol.data_received(data)
        except Exception as failed:
            error = InfrastructureFault(reason_of(failed))
        finally:
            self._closing = True
            self._protocol.connection_lost(error)


def reason_of(error: Exception) -> str:
    """What Ray says of a call that failed, in a few words."""
    import ray

    if isinstance(error, ray.exceptions.RayActorError):
        return "the actor has died, or Ray cannot reach it"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1][:300]}" if lines else type(error).__name__
