"""A loaded program and its plays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from types import TracebackType

from spadework.sandbox import wire
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, InfrastructureFault
from spadework.sandbox.play import Play
from spadework.sandbox.worker import Lost, WorkerProcess

MAX_ADAPTATIONS = 64


@dataclass(frozen=True)
class ProgramInfo:
    """What is known of a program. ``adaptations`` says what was changed to make it obey the contract."""

    class_name: str
    max_turns: int | None
    has_solution: bool
    adaptations: tuple[str, ...]
    uses_tools: bool = False
    """Actions and observations are in the notation of `spadework.environment.tool_calls`."""


@dataclass
class Record:
    """How often the processes of one source had to be ended, and why the last time.

    ``keep`` is called at each count, so that only culprits are remembered after they are closed.
    """

    keep: Callable[[Record], object]
    kills: int = 0
    kind: FaultKind = FaultKind.EXIT
    reason: str = ""


def require_seed(seed: int | None) -> None:
    """Raises ValueError for a seed that no program can be given."""
    if seed is not None and not -(2**63) <= seed < 2**64:
        raise ValueError(f"the seed {seed} is not within [-2**63, 2**64)")


def require_source(source: str, limits: Limits) -> None:
    """Raises EnvironmentFault for a source that is too long to be opened."""
    if len(source) > limits.max_source_chars:
        raise EnvironmentFault(
            FaultKind.LOAD,
            f"the source has {len(source)} characters; at most {limits.max_source_chars} are accepted",
        )


def with_notes(info: ProgramInfo, notes: tuple[str, ...]) -> ProgramInfo:
    """``info`` with those adaptations that are new, up to `MAX_ADAPTATIONS`: a program can forge any number."""
    known = info.adaptations
    new = tuple(note for note in notes if note not in known)[: MAX_ADAPTATIONS - len(known)]
    return replace(info, adaptations=known + new) if new else info


class Program:
    """A program that is loaded in a process of its own. Made by `Sandbox.open`; close it, or use `async with`."""

    def __init__(
        self, source: str, limits: Limits, record: Record, start: Callable[[str], Awaitable[WorkerProcess]]
    ) -> None:
        self.limits = limits
        self.info = ProgramInfo("", None, False, ())
        self._source = source
        self._record = record
        self._start = start
        self._starting = asyncio.Lock()
        self._workers: list[WorkerProcess] = []
        self._next_play = 0
        self.closed = False

    async def reset(self, seed: int | None) -> tuple[Play, str]:
        """A new play and its first observation, on a fresh instance of the class.

        ``seed`` lies in [-2**63, 2**64). Raises EnvironmentFault, InfrastructureFault, and ValueError for a seed
        out of range.
        """
        require_seed(seed)
        self._next_play += 1
        play = Play(self, self._next_play, seed)
        return play, await play.begin()

    async def close(self) -> None:
        """End the program's processes. Its plays cannot be used any more."""
        self.closed = True
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.stop()
        for worker in workers:
            await worker.ended()

    async def __aenter__(self) -> Program:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def pids(self) -> tuple[int, ...]:
        """The program's processes that are alive."""
        return tuple(worker.pid for worker in self._workers if worker.alive)

    async def load(self) -> None:
        """Start the first process and learn what the program is."""
        await self._add_worker()

    def require_usable(self) -> None:
        """Raises EnvironmentFault if the program is quarantined, RuntimeError if it is closed."""
        if self.closed:
            raise RuntimeError(f"the program {self.info.class_name} is closed")
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

    def note(self, notes: tuple[str, ...]) -> None:
        if notes:
            self.info = with_notes(self.info, notes)

    async def _add_worker(self) -> WorkerProcess:
        worker = await self._start(self._source)
        worker.on_death = self._count
        try:
            answer = await worker.request("load", 0, None, self.limits.load_timeout_s)
            if isinstance(answer, Lost):
                if not answer.guilty:
                    raise InfrastructureFault(f"the program could not be loaded: {answer.reason}")
                raise EnvironmentFault(answer.kind, answer.reason)
            try:
                if not answer.ok:
                    raise wire.fault_of(answer.value)
                class_name, max_turns, has_solution, uses_tools = wire.loaded_of(answer.value)
            except wire.ProtocolBreach as breach:
                raise EnvironmentFault(FaultKind.PROTOCOL, f"the process sent {breach}") from None
        except BaseException:
            worker.stop()
            raise
        self.info = ProgramInfo(class_name, max_turns, has_solution, self.info.adaptations, uses_tools)
        self.note(answer.notes)
        self._workers.append(worker)
        return worker

    def _count(self, kind: FaultKind, reason: str) -> None:
        record = self._record
        record.kills += 1
        record.kind, record.reason = kind, reason
        record.keep(record)
