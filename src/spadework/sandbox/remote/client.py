"""A served sandbox, to be used in place of `Sandbox`.

async with RemoteSandbox("tcp://node-7:8471") as sandbox, await sandbox.open(source) as program:
    play, observation = await program.reset(seed=7)
    transition = await play.step("look around")
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from spadework.sandbox import wire
from spadework.sandbox.address import TcpAddress, parse_address
from spadework.sandbox.layers import Layer
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import EnvironmentFault, InfrastructureFault, Transition
from spadework.sandbox.program import ProgramInfo, require_seed, require_source, with_notes
from spadework.sandbox.remote.connection import Connection, connect
from spadework.sandbox.remote.messages import MAX_ACTION_CHARS, Call, Status, error_of
from spadework.sandbox.remote.token import read_token, require_token

T = TypeVar("T")


class RemoteSandbox:
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
        self.limits = limits
        self.hash_seed = hash_seed
        self._address = parse_address(address)
        self._token = token
        self._connecting = asyncio.Lock()
        self._connection: Connection | None = None
        self._programs = 0

    async def __aenter__(self) -> RemoteSandbox:
        """Raises InfrastructureFault if nothing answers at the address, or the server refuses."""
        self._connection = await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def level(self) -> tuple[Layer, ...]:
        """Every layer of isolation of the other machine, in force or not, from the weakest to the strongest."""
        return () if self._connection is None else self._connection.level

    async def open(self, source: str) -> RemoteProgram:
        """The program, loaded and constructed once. Raises what `Sandbox.open` raises."""
        require_source(source, self.limits)
        connection = await self._connected()
        self._programs += 1
        program = RemoteProgram(connection, self._programs, self.limits)
        await program.load(source)
        return program

    async def close(self) -> None:
        """End every program, and wait for it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._connection is None:
                raise RuntimeError("the sandbox is not open: use `async with RemoteSandbox(address)`")
            if self._connection.lost:
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> Connection:
        token = ""
        if isinstance(self._address, TcpAddress):
            token = read_token() if self._token is None else self._token
            require_token(token)
        return await connect(self._address, token, self.limits, self.hash_seed)


class RemoteProgram:
    """See `Program`. Made by `RemoteSandbox.open`; close it, or use `async with`."""

    def __init__(self, connection: Connection, number: int, limits: Limits) -> None:
        self.limits = limits
        self.info = ProgramInfo("", None, False, ())
        self.closed = False
        self._connection = connection
        self._number = number
        self._plays = 0

    async def reset(self, seed: int | None) -> tuple[RemotePlay, str]:
        """See `Program.reset`."""
        require_seed(seed)
        self._plays += 1
        play = RemotePlay(self, self._plays)
        return play, await play.begin(seed)

    async def close(self) -> None:
        """End the program's processes. Its plays cannot be used any more."""
        if self.closed:
            return
        self.closed = True
        with suppress(InfrastructureFault, RuntimeError):  # the connection has ended, and the program with it
            await self._connection.request(Call.CLOSE, self._number, 0, None)

    async def __aenter__(self) -> RemoteProgram:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def load(self, source: str) -> None:
        """Have the program opened, and learn what it is."""
        try:
            loaded = await self.ask(Call.OPEN, 0, source, wire.loaded_of)
        except asyncio.CancelledError:
            self._connection.leave(self._number, 0)
            raise
        class_name, max_turns, has_solution, uses_tools = loaded
        self.info = ProgramInfo(class_name, max_turns, has_solution, self.info.adaptations, uses_tools)

    def require_usable(self) -> None:
        """Raises RuntimeError if the program is closed."""
        if self.closed or self._connection.closed:
            raise RuntimeError(f"the program {self.info.class_name} is closed")

    async def ask(self, call: Call, play: int, argument: str | int | None, read: Callable[[object], T]) -> T:
        """What ``read`` makes of the answer. Raises what the server says was raised."""
        reply = await self._connection.request(call, self._number, play, argument)
        if reply.notes:
            self.info = with_notes(self.info, reply.notes)
        try:
            if reply.status is Status.OK:
                return read(reply.value)
            error = error_of(reply)
        except wire.ProtocolBreach as breach:
            raise self._connection.fault(breach) from None
        raise error

    def leave(self, play: int) -> None:
        if not self.closed:
            self._connection.leave(self._number, play)


class RemotePlay:
    """See `Play`. Made by `RemoteProgram.reset`; one call at a time."""

    def __init__(self, program: RemoteProgram, number: int) -> None:
        self._program = program
        self._number = number
        self._fault: EnvironmentFault | None = None
        self._busy = False
        self._closed = False

    async def begin(self, seed: int | None) -> str:
        limits = self._program.limits
        return await self._call(Call.RESET, seed, lambda value: wire.observation_of(value, limits))

    async def step(self, action: str) -> Transition:
        """See `Play.step`. Raises ValueError as well, for an action of more than `MAX_ACTION_CHARS` characters."""
        if not isinstance(action, str):
            raise TypeError(f"an action is a str, not {type(action).__name__}")
        if len(action) > MAX_ACTION_CHARS:
            raise ValueError(f"the action has {len(action)} characters; a served sandbox takes {MAX_ACTION_CHARS}")
        limits = self._program.limits
        return await self._call(Call.STEP, action, lambda value: wire.transition_of(value, limits))

    async def solution(self) -> tuple[str, ...]:
        """See `Play.solution`."""
        return await self._call(Call.SOLUTION, None, wire.solution_of)

    async def inspect(self) -> str:
        """See `Play.inspect`."""
        limits = self._program.limits
        return await self._call(Call.INSPECT, None, lambda value: wire.inspection_of(value, limits))

    async def close(self) -> None:
        """Forget the play. Never fails; may be called again."""
        if not self._closed:
            self._closed = True
            self._program.leave(self._number)

    async def _call(self, call: Call, argument: str | int | None, read: Callable[[object], T]) -> T:
        self._require_usable()
        self._busy = True
        try:
            return await self._program.ask(call, self._number, argument, read)
        except EnvironmentFault as fault:
            self._fault = fault
            raise
        except InfrastructureFault:
            raise
        except BaseException:
            # cancelled: whether the program has seen the call is unknown
            await self.close()
            raise
        finally:
            self._busy = False

    def _require_usable(self) -> None:
        if self._fault is not None:
            raise EnvironmentFault(self._fault.kind, self._fault.reason, self._fault.trace)
        if self._closed:
            raise RuntimeError("the play is closed")
        if self._busy:
            raise RuntimeError("a play answers one call at a time")
        self._program.require_usable()
