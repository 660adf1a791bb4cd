"""A control group around one template and all workers that it forks: a limit on their memory together.

Control groups of version 2 are folders. One is made beside the group of this process, where this user may: root, and
users to whom systemd delegates (`Delegate=yes`, `systemd-run --user --scope`). The template enters it by itself.
"""

from __future__ import annotations

import os
from pathlib import Path

MOUNTED, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
CONTROLLERS = {"memory", "pids"}
MAX_PROCESSES = 16_384
"""A backstop: more than a host has descriptors for workers."""
MEBIBYTE = 1 << 20
PREFIX = "spadework-"


class NoControlGroup(Exception):
    """Why none can be made, as the end of a sentence."""


def make(memory_mb: int, mounted: Path = MOUNTED, own: Path = OWN) -> Path:
    """The folder of a new group, whose processes have `memory_bytes` together. Raises NoControlGroup."""
    try:
        beside = _parent(own.read_text(), mounted)
        lacking = CONTROLLERS - set((beside / "cgroup.subtree_control").read_text().split())
        if lacking:
            raise NoControlGroup(f"{' and '.join(sorted(lacking))} cannot be limited beside the group of this process")
        group = beside / f"{PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
        group.mkdir()
    except OSError as error:
        raise NoControlGroup(f"this user may make none ({error.strerror})") from None
    try:
        (group / "memory.max").write_text(str(memory_bytes(memory_mb, _machine_bytes())))
        (group / "pids.max").write_text(str(MAX_PROCESSES))
        swap = group / "memory.swap.max"
        if swap.exists():  # not where swap is not accounted for
            swap.write_text("0")
    except OSError as error:
        remove(group)
        raise NoControlGroup(f"the kernel refused its limits ({error.strerror})") from None
    return group


def remove(group: Path) -> bool:
    """False if a process is still in it."""
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def memory_bytes(memory_mb: int, machine_bytes: int) -> int:
    """The limit: what was asked for, but no more than three quarters of the machine's memory."""
    return min(memory_mb * MEBIBYTE, machine_bytes * 3 // 4)


def _parent(membership: str, mounted: Path) -> Path:
    """The folder in which the group of this process lies, from what `/proc/self/cgroup` says."""
    for line in membership.splitlines():
        number, controllers, path = line.split(":", 2)
        if number != "0" or controllers:
            continue
        if path == "/":
            raise NoControlGroup("this process is in the topmost group that it sees, beside which there are none")
        return (mounted / path.lstrip("/")).parent
    raise NoControlGroup("this kernel has none of version 2")


def _machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
