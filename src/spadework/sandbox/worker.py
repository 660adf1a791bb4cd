"""The host's handle on one worker process: requests in flight, deadlines, death.

Requests are answered in order, and answers to calls of the same name travel together. So the first unanswered one is
the one that runs, or has run a moment ago and is of the same name: its deadline is that of the one that runs. If the
process dies, the guilty one is among those that were sent. If they are several, all count as innocent and are asked
again, in a process that gathers no answers: there the first unanswered one is the one that runs.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from spadework.sandbox.deadlines import GRACE_S, LONG_S, Watch, cpu_times_s, give_way, take_turns_again
from spadework.sandbox.inside.deadline import PATIENCE
from spadework.sandbox.inside.worker import EXIT_BROKEN, EXIT_MEMORY, NOUNS
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import FaultKind
from spadework.sandbox.wire import Answer, FrameReader, ProtocolBreach, answer_of, encode_request, max_answer_bytes

SLOW_S = 0.04
HARD_PATIENCE = 1.5 * PATIENCE
"""The deadline inside, which a process of low priority meets late, comes before."""
REPORT_TIMEOUT_S = 5.0
RECEIVE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker ended before it answered. ``guilty`` if this very request was running."""

    guilty: bool
    kind: FaultKind
    reason: str


@dataclass(slots=True)
class Request:
    sequence: int
    call: str
    limit_s: float
    future: asyncio.Future[Answer | Lost]
    started_at: float = 0.0
    before_s: tuple[float, float] | None = None
    """What the process had run and waited for a CPU in its life, when this request was first seen to be slow."""


class WorkerProcess:
    """A forked worker. ``on_death`` hears (kind, reason) once, if the process ended by its own doing.

    If the guilty request is one of several, ``on_doubt`` is called instead.
    """

    def __init__(
        self, channel: socket.socket, limits: Limits, watch: Watch, kill: Callable[[WorkerProcess], None]
    ) -> None:
        self.pid = 0
        self.plays = 0
        self.retiring = False
        self.alive = True
        self.gathers = True
        """Whether answers travel together: what `load` was called with."""
        self.on_death: Callable[[FaultKind, str], None] | None = None
        self.on_doubt: Callable[[], None] | None = None
        self._channel = channel
        self._limits = limits
        self._watch = watch
        self._kill = kill
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(max_answer_bytes(limits), "an answer")
        self._pending: deque[Request] = deque()
        self._sequence = 0
        self._unsent = bytearray()
        self._waiting = 0
        """Requests that are held back in ``_unsent``."""
        self._flush_due = False
        self._verdict: tuple[FaultKind, str] | None = None
        self._blame_running = True
        self._stopped = False
        self._giving_up: asyncio.TimerHandle | None = None
        self._usual_priority: int | None = None
        """While the process gives way to others."""
        self._ended: asyncio.Future[None] = self._loop.create_future()
        channel.setblocking(False)
        self._loop.add_reader(channel.fileno(), self._receive)

    def request(self, call: str, play: int, argument: object, limit_s: float) -> asyncio.Future[Answer | Lost]:
        """Queue a request. The future never raises."""
        future: asyncio.Future[Answer | Lost] = self._loop.create_future()
        if not self.alive:
            future.set_result(Lost(False, FaultKind.EXIT, "the process had ended"))
            return future
        self._sequence += 1
        request = Request(self._sequence, call, limit_s, future)
        if not self._pending:
            request.started_at = self._loop.time()
            self._watch.add(self)
        self._pending.append(request)
        self._unsent += encode_request(self._sequence, call, play, argument, limit_s)
        self._waiting += 1
        self._flush_soon()
        return future

    def stop(self) -> None:
        """End the process. Nobody is guilty."""
        if self.alive:
            self._stopped = True
            self._put_down()

    async def ended(self) -> None:
        await asyncio.shield(self._ended)

    def breach(self, reason: str, running: bool = True) -> None:
        """What the process sent is no answer: end it, and blame the request that runs unless told otherwise."""
        self._convict(FaultKind.PROTOCOL, f"the process sent {reason}")
        self._blame_running = self._blame_running and running

    def check(self, now: float) -> None:
        """Kill the process if the running request is past its hard deadline."""
        request = self._pending[0]
        wall_s = now - request.started_at
        if wall_s < SLOW_S or not self.alive:
            return
        ran_s, waited_s = cpu_times_s(self.pid)
        if request.before_s is None:
            request.before_s = ran_s, waited_s
        had_s = wall_s - (waited_s - request.before_s[1])
        if had_s > request.limit_s + GRACE_S or wall_s > HARD_PATIENCE * request.limit_s + GRACE_S:
            self._convict(FaultKind.TIMEOUT, f"{noun(request.call)} took longer than {request.limit_s:g} s")
            return
        long = ran_s - request.before_s[0] > LONG_S
        if long and self._usual_priority is None and not self._watch.may_compute_long(self):
            self._usual_priority = give_way(self.pid)

    def forgive(self, seconds: float) -> None:
        """This process was held up for so long: the running request is not to blame."""
        if self._pending:
            self._pending[0].started_at += seconds

    def died(self, status: int) -> None:
        """The template has reaped the process."""
        while self._giving_up is None and self._receive():
            pass  # a play that was answered before is not guilty, however late its answer is read
        call = noun(self._pending[0].call) if self._pending else "a call"
        self._end(*(self._verdict or _cause(status, call)), counted=not self._stopped)

    def lost_with_template(self) -> None:
        self._end(FaultKind.EXIT, "the template process ended", counted=False)

    def end_without_process(self) -> None:
        self.lost_with_template()

    def _flush_soon(self) -> None:
        """When those that run in this turn of the loop have made their requests."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Requests wait for each other as long as the process has more to do than waits: many travel together."""
        self._flush_due = False
        if self._unsent and len(self._pending) <= 2 * self._waiting:
            self._watch.traffic.send(self)

    def send(self) -> None:
        """Whatever waits."""
        if not self.alive or not self._unsent:
            return
        self._watch.traffic.in_flight += self._waiting
        self._waiting = 0
        try:
            sent = self._channel.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            return  # the process is gone; the end of its stream says so
        del self._unsent[:sent]
        if self._unsent:
            self._loop.add_writer(self._channel.fileno(), self._continue)

    def _continue(self) -> None:
        self._loop.remove_writer(self._channel.fileno())
        self.send()

    def _receive(self) -> bool:
        """Take what has arrived. False if nothing has, or nothing more will be taken."""
        try:
            data = self._channel.recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._put_down()  # it may have closed its end and live on
            return False
        answered = False
        try:
            for fields in self._reader.feed(data):
                self._take(answer_of(fields))
                answered = True
        except ProtocolBreach as breach:
            self.breach(str(breach))
            return False
        if answered:
            self._watch.answered(self)
            if self._usual_priority is not None:
                take_turns_again(self.pid, self._usual_priority)
                self._usual_priority = None
            if self._pending:
                self._flush_soon()
                self._pending[0].started_at = self._loop.time()
            else:
                self._watch.discard(self)
        return True

    def _take(self, answer: Answer) -> None:
        """Raises ProtocolBreach for one that does not answer the running request."""
        if len(self._pending) <= self._waiting or answer.sequence != self._pending[0].sequence:
            raise ProtocolBreach("an answer that nobody asked for")
        request = self._pending.popleft()
        self._watch.traffic.in_flight -= 1
        if not request.future.done():
            request.future.set_result(answer)

    def _convict(self, kind: FaultKind, reason: str) -> None:
        if self.alive and self._verdict is None:
            self._verdict = kind, reason
            self._put_down()

    def _put_down(self) -> None:
        self._silence()
        self._kill(self)
        if self._giving_up is None:
            self._giving_up = self._loop.call_later(REPORT_TIMEOUT_S, self._give_up)

    def _silence(self) -> None:
        self._watch.discard(self)
        self._loop.remove_reader(self._channel.fileno())

    def _give_up(self) -> None:
        if self.alive:
            self._end(FaultKind.EXIT, "the process ended and its template did not say how", counted=False)

    def _end(self, kind: FaultKind, reason: str, counted: bool) -> None:
        if not self.alive:
            return
        self.alive = False
        self._silence()
        self._loop.remove_writer(self._channel.fileno())
        self._channel.close()
        if self._giving_up is not None:
            self._giving_up.cancel()
        self._ended.set_result(None)
        sent = len(self._pending) - self._waiting
        self._watch.traffic.in_flight -= sent
        if counted and self.gathers and self._blame_running and sent > 1:
            counted = False
            if self.on_doubt is not None:
                self.on_doubt()
        if counted and self.on_death is not None:
            self.on_death(kind, reason)
        for index, request in enumerate(self._pending):
            if not request.future.done():
                request.future.set_result(Lost(counted and self._blame_running and index == 0, kind, reason))
        self._pending.clear()


def noun(call: str) -> str:
    return NOUNS.get(call, "setting up")


def _cause(status: int, call: str) -> tuple[FaultKind, str]:
    """Why a process ended that nobody killed, from its wait status."""
    number = status & 0x7F
    if number == 0:
        code = status >> 8
        if code == EXIT_MEMORY:
            return FaultKind.MEMORY, f"{call} left too little memory to answer"
        if code == EXIT_BROKEN:
            return FaultKind.EXIT, f"{call} broke the interpreter that runs it"
        return FaultKind.EXIT, f"the process ended itself with exit code {code} during {call}"
    if number == signal.SIGXCPU:
        return FaultKind.TIMEOUT, "the process used up its CPU time"
    if number == getattr(signal, "SIGSYS", None):
        return FaultKind.EXIT, f"{call} made a system call that ends the process"
    if number == signal.SIGKILL:
        return FaultKind.EXIT, f"the process was killed or closed its channel during {call}"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return FaultKind.EXIT, f"{call} crashed the process ({name})"
