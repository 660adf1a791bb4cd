"""A served sandbox, to be used in place of `Sandbox`.

async with RemoteSandbox("tcp://node-7:8471") as sandbox, await sandbox.open(source) as program:
    play, observation = await program.reset(seed=7)
    transition = await play.step("look around")
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from spadework.sandbox import wire
from spadework.sandbox.address import TcpAddress, parse_server_address
from spadework.sandbox.handles import BasePlay, BaseProgram, BaseSandbox, PlayCall
from spadework.sandbox.layers import Layer
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import InfrastructureFault, Transition
from spadework.sandbox.remote.connection import Connection, connect
from spadework.sandbox.remote.messages import MAX_ACTION_CHARS, Argument, Call, Status, error_of
from spadework.sandbox.remote.token import read_token, require_token

T = TypeVar("T")


class RemoteSandbox(BaseSandbox["RemoteProgram"]):
    """Use it with `async with`, in one event loop. Programs opened in it end with it.

    ``address`` is that of `spadework sandbox serve`; for a TCP port the token is that of the environment unless it is
    given. Every call raises what the same call of a `Sandbox` raises, and InfrastructureFault once the connection is
    lost: what was opened before is lost with it, and the next `open` connects anew.
    """

    def __init__(
        self,
        address: str,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        hash_seed: int = 0,
        token: str | None = None,
    ) -> None:
        """Raises ValueError for an address that is none."""
        super().__init__(limits, hash_seed)
        self._address = parse_server_address(address)
        self._token = token
        self._connecting = asyncio.Lock()
        self._connection: Connection | None = None
        self._programs = 0

    def level(self) -> tuple[Layer, ...]:
        """Every layer of isolation of the other machine, in force or not, from the weakest to the strongest."""
        return () if self._connection is None else self._connection.level

    async def _start(self) -> None:
        self._connection = await self._connect()

    async def _open(self, source: str, hash_seed: int) -> RemoteProgram:
        connection = await self._connected()
        self._programs += 1
        program = RemoteProgram(connection, self._programs, self.limits)
        await program.load(source, hash_seed)
        return program

    async def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connected(self) -> Connection:
        async with self._connecting:
            self._require_open()
            if self._connection is None or self._connection.lost:
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> Connection:
        token = ""
        if isinstance(self._address, TcpAddress):
            token = read_token() if self._token is None else self._token
            require_token(token)
        return await connect(self._address, token, self.limits, self.hash_seed)


class RemoteProgram(BaseProgram["RemotePlay"]):
    """See `Program`. Made by `RemoteSandbox.open`."""

    def __init__(self, connection: Connection, number: int, limits: Limits) -> None:
        super().__init__(limits)
        self._connection = connection
        self._number = number
        self._plays = 0

    @property
    def closed(self) -> bool:
        return self._closed or self._connection.closed

    @property
    def lost(self) -> bool:
        """Whether its connection is, and it with it."""
        return self._connection.lost

    async def load(self, source: str, hash_seed: int) -> None:
        """Have the program opened, and learn what it is."""
        try:
            self.learn(await self.ask(Call.OPEN, 0, (source, hash_seed), wire.loaded_of))
        except asyncio.CancelledError:
            self.leave(0)
            raise

    async def ask(self, call: Call, play: int, argument: Argument, read: Callable[[object], T]) -> T:
        """What ``read`` makes of the answer. Raises what the server says was raised."""
        reply = await self._connection.request(call, self._number, play, argument)
        if reply.notes:
            self.note(reply.notes)
        try:
            if reply.status is Status.OK:
                return read(reply.value)
            error = error_of(reply)
        except wire.ProtocolBreach as breach:
            raise self._connection.fault(breach) from None
        raise error

    def leave(self, play: int) -> None:
        """Give up a play, or the program if ``play`` is 0."""
        if not self.closed:
            self._connection.leave(self._number, play)

    async def _begin(self, seed: int | None) -> tuple[RemotePlay, str]:
        self._plays += 1
        play = RemotePlay(self, self._plays)
        return play, await play.begin(seed)

    async def _end(self) -> None:
        with suppress(InfrastructureFault, RuntimeError):  # the connection has ended, and the program with it
            await self._connection.request(Call.CLOSE, self._number, 0, None)


class RemotePlay(BasePlay):
    """See `Play`. Made by `RemoteProgram.reset`."""

    def __init__(self, program: RemoteProgram, number: int) -> None:
        super().__init__(program)
        self._program = program
        self._number = number

    async def step(self, action: str) -> Transition:
        """See `Play.step`. Raises ValueError as well, for an action of more than `MAX_ACTION_CHARS` characters."""
        if isinstance(action, str) and len(action) > MAX_ACTION_CHARS:
            raise ValueError(f"the action has {len(action)} characters; a served sandbox takes {MAX_ACTION_CHARS}")
        return await super().step(action)

    async def _ask(self, call: PlayCall, argument: str | int | None, read: Callable[[object], T]) -> T:
        return await self._program.ask(Call(call), self._number, argument, read)

    def _leave(self) -> None:
        self._program.leave(self._number)
