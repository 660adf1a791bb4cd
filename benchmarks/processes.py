"""What /proc tells of processes."""

from __future__ import annotations

import os
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """All of them, zombies included."""
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*children, *(further for child in children for further in descendants(child))]


def cpu_s(pid: int) -> float:
    """CPU time of the main thread; 0 if the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0


def machine_cpu_s() -> float:
    """CPU time of everything that runs on this machine, since it was started."""
    user, nice, system, _idle, _iowait, *rest = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def resident_kib(pid: int) -> int:
    """Memory in RAM; 0 if the process is gone."""
    return _kib(pid, "status", "VmRSS:") or 0


def proportional_kib(pid: int) -> int | None:
    """Memory in RAM, pages that are shared counted in part; None for those who may not look."""
    return _kib(pid, "smaps_rollup", "Pss:")


def _kib(pid: int, file: str, field: str) -> int | None:
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(field)), None)
