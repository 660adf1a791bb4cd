"""Hard deadlines: one timer looks at all busy workers.

The worker's own deadline comes first and costs nobody anything. A worker that is silent for `GRACE_S` longer is
killed. Time in which the worker waited for a CPU, or in which this process itself was held up, does not count.

A call that has computed for `LONG_S` is long. On half of the CPUs workers may compute for long; further ones let
everybody else go first.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Protocol

from spadework.sandbox.traffic import Traffic

TICK_S = 0.05
GRACE_S = 0.25
STALL_S = 0.25
LONG_S = 0.1
LOWEST_PRIORITY = 19


class Watched(Protocol):
    def check(self, now: float) -> None: ...

    def forgive(self, seconds: float) -> None: ...


class Watch:
    """Calls `check` on each busy worker every `TICK_S`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._busy: set[Watched] = set()
        self._long: set[Watched] = set()
        self._long_at_once = max(1, (os.cpu_count() or 1) // 2)
        self.traffic = Traffic()
        self._timer: asyncio.TimerHandle | None = None
        self._last_tick = 0.0

    def add(self, worker: Watched) -> None:
        self._busy.add(worker)
        if self._timer is None:
            self._arm()

    def discard(self, worker: Watched) -> None:
        self._busy.discard(worker)
        self._long.discard(worker)

    def may_compute_long(self, worker: Watched) -> bool:
        """Whether there is a place for it. It keeps that until `answered`."""
        if worker not in self._long and len(self._long) >= self._long_at_once:
            return False
        self._long.add(worker)
        return True

    def answered(self, worker: Watched) -> None:
        self._long.discard(worker)

    def close(self) -> None:
        self.traffic.close()
        self._busy.clear()
        self._long.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._last_tick = self._loop.time()
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._loop.time()
        late = now - self._last_tick - TICK_S
        for worker in list(self._busy):
            if late > STALL_S:
                worker.forgive(late)
            else:
                worker.check(now)
        if self._busy:
            self._arm()


def cpu_times_s(pid: int) -> tuple[float, float]:
    """Seconds for which the main thread of ``pid`` ran, and for which it was ready to run and did not.

    Zeros where that is not counted.
    """
    try:
        ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
        return int(ran) / 1e9, int(waited) / 1e9
    except (OSError, ValueError):
        return 0.0, 0.0


def give_way(pid: int) -> int | None:
    """Everybody else on this machine goes before ``pid``. Its priority until now; None if it is gone."""
    with contextlib.suppress(OSError):
        priority = os.getpriority(os.PRIO_PROCESS, pid)
        os.setpriority(os.PRIO_PROCESS, pid, LOWEST_PRIORITY)
        return priority
    return None


def take_turns_again(pid: int, priority: int) -> None:
    """As before `give_way`. The kernel lets only root do it: for an ordinary user the process stays behind."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, priority)
