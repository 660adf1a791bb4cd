"""CPU time of processes that come and go."""

from __future__ import annotations

import os
from pathlib import Path


def family_cpu_s(pid: int) -> float:
    """Of all descendants of ``pid``; those that have ended count once they were waited for. 0 without /proc."""
    return _waited_for_s(pid) + sum(_own_s(child) + family_cpu_s(child) for child in _children(pid))


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _own_s(pid: int) -> float:
    return _ticks_s(pid, 14)


def _waited_for_s(pid: int) -> float:
    return _ticks_s(pid, 16)


def _ticks_s(pid: int, field: int) -> float:
    """Two neighbouring fields of /proc/PID/stat, counted from 1 as in proc(5); 0 if the process is gone."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, after_name[field - 3 : field - 1])) / os.sysconf("SC_CLK_TCK")
