"""The server: listens, and gives each connection a sandbox of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from spadework.sandbox.address import ServerAddress, TcpAddress, UnixAddress
from spadework.sandbox.layers import Layer
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import InfrastructureFault
from spadework.sandbox.pool import Sandbox
from spadework.sandbox.remote.served import ServedClient
from spadework.sandbox.remote.token import require_token

MAX_CLIENTS = 64
BACKLOG = 128


class SandboxServer:
    """Use it with `async with`. At its end every client has been told, and every process has ended.

    ``allowed`` bounds what clients may ask for. A Unix socket is its owner's alone and needs no ``token``. ``say``
    hears one line for each client that comes or goes.
    """

    def __init__(self, address: ServerAddress, allowed: Limits, token: str, say: Callable[[str], None]) -> None:
        """Raises InfrastructureFault if a TCP port is to be served without a proper token."""
        if isinstance(address, TcpAddress):
            require_token(token)
        self.address = address
        self.level: tuple[Layer, ...] = ()
        self._allowed = allowed
        self._token = token if isinstance(address, TcpAddress) else ""
        self._say = say
        self._clients: dict[asyncio.Task[None], ServedClient] = {}
        self._connected = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> SandboxServer:
        """Raises InfrastructureFault if programs cannot be isolated here, or the address is taken or impossible."""
        async with Sandbox(self._allowed) as sandbox:
            self.level = sandbox.level()
        try:
            await self._listen()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise InfrastructureFault(f"nothing can be served at {self.address}: {reason}; give another") from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        if isinstance(self.address, UnixAddress):
            Path(self.address.path).unlink(missing_ok=True)
        clients = dict(self._clients)
        for client in clients.values():
            client.stop("the server was stopped")
        await asyncio.gather(*clients, return_exceptions=True)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        if isinstance(self.address, UnixAddress):
            self._server = await loop.create_unix_server(
                self._client, sock=_private_socket(self.address), backlog=BACKLOG
            )
            return
        self._server = await loop.create_server(self._client, self.address.host, self.address.port, backlog=BACKLOG)
        self.address = TcpAddress(self.address.host, self._server.sockets[0].getsockname()[1])

    def _client(self) -> ServedClient:
        self._connected += 1
        refusal = f"the server has {MAX_CLIENTS} clients already" if len(self._clients) >= MAX_CLIENTS else ""
        client = ServedClient(f"client {self._connected}", self._allowed, self._token, self._say, refusal)
        self._clients[client.done] = client
        client.done.add_done_callback(self._forget)
        return client

    def _forget(self, done: asyncio.Task[None]) -> None:
        client = self._clients.pop(done)
        if not done.cancelled() and done.exception() is not None:
            client.hang_up()
            done.get_loop().call_exception_handler({"message": "a client's task failed", "exception": done.exception()})


def _private_socket(address: UnixAddress) -> socket.socket:
    """Bound, for its owner alone. A socket that a dead server left is replaced. Raises OSError."""
    path = Path(address.path)
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode) and not _answers(address.path):
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(address.path)
        path.chmod(0o600)
    except BaseException:
        listening.close()
        raise
    return listening


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
    return True
