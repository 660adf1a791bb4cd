"""Processes that compute for long give way to those that answer at once.

Programs that hang would otherwise share the CPUs with all others until their deadlines pass.
"""

from __future__ import annotations

import contextlib
import os

LOWEST = 19


def give_way(pid: int) -> int | None:
    """Let ``pid`` run when nothing else wants to. Returns its niceness before; None where that is not permitted."""
    try:
        before = os.getpriority(os.PRIO_PROCESS, pid)
        os.setpriority(os.PRIO_PROCESS, pid, LOWEST)
    except OSError:
        return None
    return before


def restore(pid: int, niceness: int) -> None:
    """Undo `give_way` where that is permitted: an ordinary user cannot, and the process goes on giving way."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, niceness)
