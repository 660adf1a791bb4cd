"""A loaded program and its plays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from spadework.sandbox import wire
from spadework.sandbox.handles import BaseProgram
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, InfrastructureFault
from spadework.sandbox.play import Play
from spadework.sandbox.worker import Lost, WorkerProcess


@dataclass
class Record:
    """How often the processes of one source had to be ended, and why the last time.

    ``keep`` is called at each change, so that only culprits are remembered after they are closed.
    """

    keep: Callable[[Record], object]
    kills: int = 0
    kind: FaultKind = FaultKind.EXIT
    reason: str = ""
    one_by_one: bool = False
    """Each answer is waited for before the next call runs, since a process died and several may be guilty."""


class Program(BaseProgram[Play]):
    """A program that is loaded in a process of its own. Made by `Sandbox.open`."""

    def __init__(
        self, source: str, limits: Limits, record: Record, start: Callable[[str], Awaitable[WorkerProcess]]
    ) -> None:
        super().__init__(limits)
        self._source = source
        self._record = record
        self._start = start
        self._starting = asyncio.Lock()
        self._workers: list[WorkerProcess] = []
        self._next_play = 0

    def pids(self) -> tuple[int, ...]:
        """The program's processes that are alive."""
        return tuple(worker.pid for worker in self._workers if worker.alive)

    async def load(self) -> None:
        """Start the first process and learn what the program is."""
        await self._add_worker()

    def require_usable(self) -> None:
        """Raises EnvironmentFault if the program is quarantined, RuntimeError if it is closed."""
        super().require_usable()
        if self._record.kills >= self.limits.max_kills:
            raise EnvironmentFault(
                self._record.kind,
                f"the program is quarantined: its process had to be ended {self._record.kills} times, "
                f"the last time because {self._record.reason}",
            )

    async def place(self) -> WorkerProcess:
        """A process with room for one more play; the play is counted in."""
        async with self._starting:
            self.require_usable()
            self._workers = [worker for worker in self._workers if worker.alive]
            for worker in self._workers:
                if not worker.retiring and worker.plays < self.limits.episodes_per_process:
                    break
            else:
                worker = await self._add_worker()
            worker.plays += 1
            return worker

    def leave(self, worker: WorkerProcess) -> None:
        """A play has left the process."""
        worker.plays -= 1
        if worker.retiring and worker.plays == 0:
            worker.stop()

    async def _begin(self, seed: int | None) -> tuple[Play, str]:
        self._next_play += 1
        play = Play(self, self._next_play)
        return play, await play.begin(seed)

    async def _end(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.stop()
        for worker in workers:
            await worker.ended()

    async def _add_worker(self) -> WorkerProcess:
        worker = await self._start(self._source)
        worker.on_death, worker.on_doubt = self._count, self._doubt
        worker.gathers = not self._record.one_by_one
        try:
            answer = await worker.request("load", 0, worker.gathers, self.limits.load_timeout_s)
            if isinstance(answer, Lost):
                if not answer.guilty:
                    raise InfrastructureFault(f"the program could not be loaded: {answer.reason}")
                raise EnvironmentFault(answer.kind, answer.reason)
            try:
                if not answer.ok:
                    raise wire.fault_of(answer.value)
                self.learn(wire.loaded_of(answer.value))
            except wire.ProtocolBreach as breach:
                raise EnvironmentFault(FaultKind.PROTOCOL, f"the process sent {breach}") from None
        except BaseException:
            worker.stop()
            raise
        self.note(answer.notes)
        self._workers.append(worker)
        return worker

    def _doubt(self) -> None:
        self._record.one_by_one = True
        self._record.keep(self._record)

    def _count(self, kind: FaultKind, reason: str) -> None:
        record = self._record
        record.kills += 1
        record.kind, record.reason = kind, reason
        record.keep(record)
