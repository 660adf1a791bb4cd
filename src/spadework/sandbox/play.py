"""One play of a program.

A play outlives its process: if another play ends the process that both share, this one is played again from its
seed and actions in a fresh process, and every answer is compared with the first one.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from spadework.sandbox import wire
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, InfrastructureFault, Transition
from spadework.sandbox.worker import Lost, WorkerProcess

if TYPE_CHECKING:
    from spadework.sandbox.program import Program

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call that was answered, and a checksum of the answer."""

    call: str
    argument: object
    checksum: int


class Play:
    """Made by `Program.reset`. One call at a time; after a fault every call raises the same fault again."""

    def __init__(self, program: Program, number: int, seed: int | None) -> None:
        self._program = program
        self._number = number
        self._seed = seed
        self._worker: WorkerProcess | None = None
        self._exchanges: list[Exchange] = []
        self._spent_s = 0.0
        self._fault: EnvironmentFault | None = None
        self._busy = False
        self._closed = False

    async def begin(self) -> str:
        limits = self._program.limits
        return await self._call(
            "reset", self._seed, limits.reset_timeout_s, lambda value: wire.observation_of(value, limits)
        )

    async def step(self, action: str) -> Transition:
        """Raises EnvironmentFault or InfrastructureFault; TypeError if the action is no text."""
        if not isinstance(action, str):
            raise TypeError(f"an action is a str, not {type(action).__name__}")
        limits = self._program.limits
        return await self._call("step", action, limits.step_timeout_s, lambda value: wire.transition_of(value, limits))

    async def solution(self) -> tuple[str, ...]:
        """The actions that win this play. Raises EnvironmentFault of kind CONTRACT if there are none."""
        return await self._call("solution", None, self._program.limits.reset_timeout_s, wire.solution_of)

    async def inspect(self) -> str:
        """JSON of what the gates look at in a tool environment: instructions, what each criterion says, the state.

        Raises EnvironmentFault, of kind CONTRACT if the program is no tool environment.
        """
        limits = self._program.limits
        return await self._call(
            "inspect", None, limits.reset_timeout_s, lambda value: wire.inspection_of(value, limits)
        )

    async def close(self) -> None:
        """Forget the play. Never fails; may be called again."""
        if not self._closed:
            self._closed = True
            self._detach()

    async def _call(self, call: str, argument: object, limit_s: float, read: Callable[[object], T]) -> T:
        self._require_usable()
        self._busy = True
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
        except EnvironmentFault as fault:
            self._fault = fault
            self._detach()
            raise
        except InfrastructureFault:
            self._detach()  # what was answered so far is known: the same call may be tried again
            raise
        except BaseException:
            # cancelled: whether the program has seen the call is unknown
            self._closed = True
            self._detach()
            raise
        finally:
            self._busy = False

    async def _attached(self) -> WorkerProcess:
        """The process that holds this play, after replaying it if its last process is gone."""
        while self._worker is None or not self._worker.alive:
            self._worker = None
            worker = self._worker = await self._program.place()
            if self._exchanges:
                await self._replay(worker)
        return self._worker

    async def _replay(self, worker: WorkerProcess) -> None:
        limits = self._program.limits
        futures = []
        for exchange in self._exchanges:
            limit_s = limits.step_timeout_s if exchange.call == "step" else limits.reset_timeout_s
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

    def _require_usable(self) -> None:
        if self._fault is not None:
            raise EnvironmentFault(self._fault.kind, self._fault.reason, self._fault.trace)
        if self._closed:
            raise RuntimeError("the play is closed")
        if self._busy:
            raise RuntimeError("a play answers one call at a time")
        self._program.require_usable()

    def _raise_if_guilty(self, lost: Lost) -> None:
        if lost.guilty:
            raise EnvironmentFault(lost.kind, lost.reason)

    def _detach(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None and worker.alive:
            worker.request("close", self._number, None, self._program.limits.reset_timeout_s)
            self._program.leave(worker)


def _checksum(value: object) -> int:
    """Of an answer's value without its info, which need not repeat."""
    compared = value[:4] if isinstance(value, list) else value
    return zlib.crc32(repr(compared).encode("utf-8", "surrogatepass"))
