"""A sandbox on the nodes of a Ray cluster, to be used in place of `Sandbox`.

async with RaySandbox("ray", actors=4) as sandbox, await sandbox.open(source) as program:
    play, observation = await program.reset(seed=7)
    transition = await play.step("look around")
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from spadework.sandbox.address import RayAddress, parse_address
from spadework.sandbox.cluster.host import Host, Seat
from spadework.sandbox.cluster.joining import join, nodes
from spadework.sandbox.handles import BaseProgram, BaseSandbox, ProgramInfo
from spadework.sandbox.layers import Layer
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, InfrastructureFault
from spadework.sandbox.remote.client import RemotePlay, RemoteProgram
from spadework.sandbox.remote.messages import Argument, Call

T = TypeVar("T")

_FATAL = frozenset({FaultKind.TIMEOUT, FaultKind.MEMORY, FaultKind.EXIT, FaultKind.PROTOCOL})
"""Faults that may have cost a process."""


class RaySandbox(BaseSandbox["RayProgram"]):
    """Use it with `async with`, in one event loop. Programs opened in it end with it.

    ``address`` is `ray` for the cluster that this process is connected to or that `ray.init` finds or starts, or
    `ray://HOST:PORT`. There are ``actors`` actors, one for each node if that is 0. A program is opened on the actor
    that has the fewest; one that cost a process goes where that was counted.

    Every call raises what the same call of a `Sandbox` raises. When an actor dies, Ray starts it again; until then each
    call of what ran there raises InfrastructureFault with the actor's name, while `open`, and `reset` of a program that
    ran there, turn to the other actors.
    """

    def __init__(
        self,
        address: str = "ray",
        limits: Limits = Limits(),  # noqa: B008 - frozen
        hash_seed: int = 0,
        actors: int = 0,
    ) -> None:
        """Raises ValueError for an address that is none."""
        super().__init__(limits, hash_seed)
        parsed = parse_address(address)
        if not isinstance(parsed, RayAddress):
            raise ValueError(f"{address!r} is no Ray cluster; it should be ray or ray://HOST:PORT")
        self._address = parsed
        self._actors = actors
        self._hosts: list[Host] = []
        self._opened = 0
        self._culprits: dict[bytes, Host] = {}
        """By the digest of a source, the actor that knows what it did."""

    def level(self) -> tuple[Layer, ...]:
        """Every layer of isolation, from the weakest to the strongest; in force if it is for all actors."""
        seats = (host.seat for host in self._hosts)
        return common([(seat.connection.name, seat.connection.level) for seat in seats if seat is not None])

    async def place(self, source: bytes) -> tuple[Host, Seat]:
        """Where a program is opened, by the digest of its ``source``. Raises InfrastructureFault if no actor lives."""
        while True:
            self._require_open()
            living = [(host, seat) for host in self._hosts if (seat := host.seat) is not None]
            attempts = [host.connecting() for host in self._hosts if host.seat is None]
            if living:
                culprit = self._culprits.get(source)
                return min(living, key=lambda place: (place[0] is not culprit, place[1].programs, place[0].number))
            await _first(attempts)

    def count(self) -> int:
        """A number that no other program of this sandbox has."""
        self._opened += 1
        return self._opened

    def remember(self, source: bytes, host: Host, fault: EnvironmentFault) -> None:
        """``host`` has seen ``fault``; only it knows how often the program did so."""
        if fault.kind in _FATAL:
            self._culprits[source] = host

    async def _start(self) -> None:
        join(self._address)
        actors = self._actors or nodes()
        self._hosts = [Host(number, self.limits, self.hash_seed) for number in range(1, actors + 1)]
        await asyncio.gather(*(host.connecting() for host in self._hosts))

    async def _open(self, source: str, hash_seed: int) -> RayProgram:
        program = RayProgram(self, source, hash_seed)
        await program.load()
        return program

    async def _end(self) -> None:
        hosts, self._hosts = self._hosts, []
        await asyncio.gather(*(host.close() for host in hosts))


class RayProgram(BaseProgram[RemotePlay]):
    """See `Program`. Made by `RaySandbox.open`; `reset` opens it on another actor if its own has died."""

    def __init__(self, sandbox: RaySandbox, source: str, hash_seed: int) -> None:
        super().__init__(sandbox.limits)
        self._sandbox = sandbox
        self._source = source
        self._hash_seed = hash_seed
        self._digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).digest()
        self._loading = asyncio.Lock()
        self._loaded: SeatedProgram | None = None

    @property
    def info(self) -> ProgramInfo:
        return super().info if self._loaded is None else self._loaded.info

    @property
    def closed(self) -> bool:
        return self._closed or (self._loaded is not None and self._loaded.closed)

    async def load(self) -> SeatedProgram:
        """The program on an actor that lives."""
        async with self._loading:
            self.require_usable()
            if self._loaded is None or self._loaded.lost:
                host, seat = await self._sandbox.place(self._digest)
                program = SeatedProgram(
                    seat,
                    self._sandbox.count(),
                    self.limits,
                    lambda fault: self._sandbox.remember(self._digest, host, fault),
                )
                try:
                    await program.load(self._source, self._hash_seed)
                except BaseException:
                    program.rise()
                    raise
                self._loaded = program
            return self._loaded

    async def _begin(self, seed: int | None) -> tuple[RemotePlay, str]:
        return await (await self.load()).reset(seed)

    async def _end(self) -> None:
        if self._loaded is not None:
            self._loaded.rise()
            await self._loaded.close()


class SeatedProgram(RemoteProgram):
    """A program on one actor, and lost with it. ``on_fault`` hears each fault of the program."""

    def __init__(self, seat: Seat, number: int, limits: Limits, on_fault: Callable[[EnvironmentFault], None]) -> None:
        super().__init__(seat.connection, number, limits)
        self._seat: Seat | None = seat
        self._on_fault = on_fault
        seat.programs += 1

    def rise(self) -> None:
        """Make room on the actor."""
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.programs -= 1

    async def ask(self, call: Call, play: int, argument: Argument, read: Callable[[object], T]) -> T:
        try:
            return await super().ask(call, play, argument, read)
        except EnvironmentFault as fault:
            self._on_fault(fault)
            raise


def common(levels: Sequence[tuple[str, tuple[Layer, ...]]]) -> tuple[Layer, ...]:
    """The layers that are in force at all of (name, layers); a reason that only some have comes with one's name."""
    if not levels:
        return ()
    found = []
    for layers in zip(*(layers for _, layers in levels), strict=True):
        absent = [
            (layer.absent_because, name) for layer, (name, _) in zip(layers, levels, strict=True) if not layer.in_force
        ]
        reasons = {reason for reason, _ in absent}
        everywhere = len(absent) == len(layers) and len(reasons) == 1
        because = "" if not absent else absent[0][0] if everywhere else "{} (in {})".format(*absent[0])
        found.append(Layer(layers[0].name, because))
    return tuple(found)


async def _first(attempts: Sequence[asyncio.Task[Seat]]) -> None:
    """Wait for one that succeeds. Raises InfrastructureFault with all reasons if none does."""
    waiting = set(attempts)
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if any(not task.cancelled() and task.exception() is None for task in done):
            return
    errors = [error for task in attempts if not task.cancelled() and (error := task.exception()) is not None]
    for error in errors:
        if not isinstance(error, InfrastructureFault):
            raise error
    if errors:
        raise InfrastructureFault("; ".join(map(str, errors)))
