"""A deadline raised inside the running program.

It counts what the program had: as long as the process never slept during the call, only its own CPU time
counts, so that a busy machine does not fail an innocent program. A program that swallows the exception meets
it again every 50 ms, and the host ends the process soon after.
"""

from __future__ import annotations

import resource
import signal
import time

REPEAT_S = 0.05
PATIENCE = 30.0
"""Wall time never exceeds the limit by more than this factor, whatever the machine is doing."""


class Deadline(BaseException):
    """The call has used up its time. Not an Exception, so that ordinary handlers let it pass."""


class Clock:
    """One deadline at a time, for the call between `start` and `stop`."""

    def __init__(self) -> None:
        self._running = False
        self._limit_s = 0.0
        self._started_at = 0.0
        self._usage = resource.getrusage(resource.RUSAGE_SELF)
        signal.signal(signal.SIGALRM, self._alarm)

    def start(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._usage = resource.getrusage(resource.RUSAGE_SELF)
        self._started_at = time.perf_counter()
        self._running = True
        signal.setitimer(signal.ITIMER_REAL, limit_s, REPEAT_S)

    def stop(self) -> None:
        while True:
            try:
                self._running = False
                return
            except Deadline:
                continue  # a repetition came just before it was switched off

    def rest(self) -> None:
        """Between calls the timer disturbs nobody; it is switched off when no call waits."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def elapsed_us(self) -> int:
        return int((time.perf_counter() - self._started_at) * 1e6)

    def _alarm(self, number: int, frame: object) -> None:
        if not self._running:
            return
        wall_s = time.perf_counter() - self._started_at
        before, now = self._usage, resource.getrusage(resource.RUSAGE_SELF)
        if now.ru_nvcsw == before.ru_nvcsw and wall_s < PATIENCE * self._limit_s:
            had_s = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
            if had_s < 0.98 * self._limit_s:
                signal.setitimer(signal.ITIMER_REAL, max(0.002, self._limit_s - had_s), REPEAT_S)
                return
        raise Deadline
