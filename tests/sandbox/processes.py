"""What runs on this machine, as /proc tells it."""

from __future__ import annotations

import time
from pathlib import Path


def children(pid: int) -> list[int]:
    """All descendants of ``pid``, zombies included."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            child = int(path.parent.name)
            found += [child, *children(child)]
    return found


def forked_for(host: int) -> list[int]:
    """Templates that ``host`` started and what they forked, whoever is their parent now: all share a command line."""
    mark = f'"parent": {host},'.encode()
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_dead(pids: list[int], seconds: float) -> list[int]:
    """Those of ``pids`` that live after so many seconds."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left
