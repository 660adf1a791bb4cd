"""One play of a program.

A play outlives its process: if another play ends the process that both share, this one is played again from its
seed and actions in a fresh process, and every answer is compared with the first one.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from spadework.sandbox import wire
from spadework.sandbox.handles import BasePlay, PlayCall
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, InfrastructureFault
from spadework.sandbox.worker import Lost, WorkerProcess

if TYPE_CHECKING:
    from spadework.sandbox.program import Program

T = TypeVar("T")


class Exchange(NamedTuple):
    """A call that was answered, and a checksum of the answer."""

    call: PlayCall
    argument: object
    checksum: int


class Play(BasePlay):
    """Made by `Program.reset`."""

    def __init__(self, program: Program, number: int) -> None:
        super().__init__(program)
        self._program = program
        self._number = number
        self._worker: WorkerProcess | None = None
        self._exchanges: list[Exchange] = []
        self._spent_s = 0.0

    async def _ask(self, call: PlayCall, argument: str | int | None, read: Callable[[object], T]) -> T:
        limit_s = _limit_s(call, self._program.limits)
        try:
            while True:
                worker = await self._attached()
                answer = await worker.request(call, self._number, argument, limit_s)
                if isinstance(answer, Lost):
                    self._raise_if_guilty(answer)
                    continue
                value = self._read(worker, answer, read)
                self._exchanges.append(Exchange(call, argument, _checksum(answer.value)))
                self._spend(answer.elapsed_us)
                return value
        except InfrastructureFault:
            self._leave()  # what was answered so far is known
            raise

    async def _attached(self) -> WorkerProcess:
        """The process that holds this play, after replaying it if its last process is gone."""
        while self._worker is None or not self._worker.alive:
            self._worker = None
            worker = self._worker = await self._program.place()
            if self._exchanges:
                await self._replay(worker)
        return self._worker

    async def _replay(self, worker: WorkerProcess) -> None:
        futures = []
        for exchange in self._exchanges:
            limit_s = _limit_s(exchange.call, self._program.limits)
            futures.append(worker.request(exchange.call, self._number, exchange.argument, limit_s))
        for index, (exchange, answer) in enumerate(zip(self._exchanges, await asyncio.gather(*futures), strict=True)):
            if isinstance(answer, Lost):
                self._raise_if_guilty(answer)
                return
            if not answer.ok or _checksum(answer.value) != exchange.checksum:
                what = "reset" if index == 0 else f"call {index}"
                raise EnvironmentFault(
                    FaultKind.CONTRACT,
                    f"not deterministic: played again from the same seed, {what} answered differently",
                )

    def _read(self, worker: WorkerProcess, answer: wire.Answer, read: Callable[[object], T]) -> T:
        self._program.note(answer.notes)
        try:
            if answer.ok:
                return read(answer.value)
            fault = wire.fault_of(answer.value)
        except wire.ProtocolBreach as breach:
            worker.breach(str(breach), running=False)
            raise EnvironmentFault(FaultKind.PROTOCOL, f"the process sent {breach}") from None
        if fault.kind is FaultKind.MEMORY:
            worker.retiring = True  # whatever filled it is still there
        raise fault

    def _spend(self, elapsed_us: int) -> None:
        self._spent_s += elapsed_us / 1e6
        limit_s = self._program.limits.episode_timeout_s
        if self._spent_s > limit_s:
            raise EnvironmentFault(FaultKind.TIMEOUT, f"the play took longer than {limit_s:g} s in all")

    def _raise_if_guilty(self, lost: Lost) -> None:
        if lost.guilty:
            raise EnvironmentFault(lost.kind, lost.reason)

    def _leave(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None and worker.alive:
            worker.request("close", self._number, None, self._program.limits.reset_timeout_s)
            self._program.leave(worker)


def _limit_s(call: PlayCall, limits: Limits) -> float:
    return limits.step_timeout_s if call == "step" else limits.reset_timeout_s


def _checksum(value: object) -> int:
    """Of an answer's value without its info, which need not repeat."""
    return zlib.crc32(wire.encode_value(value[:4] if isinstance(value, list) else value))
