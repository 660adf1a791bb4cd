"""The layers that hold a worker, from the weakest to the strongest.

`restrain` acts right after the fork. `lock` acts when the modules that the program needs are imported and
before any line of the program runs; it reports the layers that the kernel put in force.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from spadework.sandbox.inside import seccomp

PROCESS = "separate process with an empty environment"
RESOURCE_LIMITS = "resource limits"
DIES_WITH_HOST = "ends with its host"
USER_NOBODY = "user nobody"
NO_NEW_PRIVILEGES = "no new privileges"
LANDLOCK = "Landlock without any file or network right"
SYSCALL_FILTER = "seccomp system-call filter"

NOBODY = 65534
MEBIBYTE = 1 << 20
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF, LANDLOCK_VERSION = 444, 446, 1


def restrain(parent: int, limits: Mapping[str, int]) -> None:
    """Own session, death with the template, resource limits. Exits if the template is already gone."""
    os.setsid()
    _die_with_parent()
    if os.getppid() != parent:
        os._exit(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with contextlib.suppress(OSError):
        os.nice(5)
    for kind, value in _resource_limits(limits):
        with contextlib.suppress(OSError, ValueError):  # `lock` looks whether it is in force
            resource.setrlimit(kind, (value, value))


def lock(limits: Mapping[str, int]) -> list[str]:
    """Give up every right. Returns the layers now in force, in words."""
    layers = [PROCESS]
    if all(resource.getrlimit(kind)[1] == value for kind, value in _resource_limits(limits)):
        layers.append(RESOURCE_LIMITS)
    if os.geteuid() == 0 and _become_nobody():
        layers.append(USER_NOBODY)
    if sys.platform != "linux":
        return layers
    _die_with_parent()  # changing the user cleared it
    layers.append(DIES_WITH_HOST)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        layers.append(NO_NEW_PRIVILEGES)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    if _landlock(libc):
        layers.append(LANDLOCK)
    if seccomp.supported() and seccomp.install(libc, seccomp.filter_for(os.getpid())):
        layers.append(SYSCALL_FILTER)
    return layers


def _resource_limits(limits: Mapping[str, int]) -> list[tuple[int, int]]:
    """Pairs of a limit that this system has and its value, never above what the host itself was given."""
    wanted = {
        "RLIMIT_AS": limits["memory_mb"] * MEBIBYTE,
        "RLIMIT_CPU": limits["cpu_s"],
        "RLIMIT_FSIZE": limits["max_file_bytes"],
        "RLIMIT_NOFILE": limits["max_open_files"],
        "RLIMIT_NPROC": limits["max_processes"],
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": 64,
        "RLIMIT_STACK": 8 * MEBIBYTE,
    }
    pairs: list[tuple[int, int]] = []
    for name, value in wanted.items():
        kind: int | None = getattr(resource, name, None)
        if kind is not None:
            hard = resource.getrlimit(kind)[1]
            pairs.append((kind, value if hard == resource.RLIM_INFINITY else min(value, hard)))
    return pairs


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _become_nobody() -> bool:
    steps: tuple[Callable[[], None], ...] = (
        lambda: os.setgroups([]),
        lambda: os.setresgid(NOBODY, NOBODY, NOBODY),
        lambda: os.setresuid(NOBODY, NOBODY, NOBODY),
    )
    try:
        for step in steps:
            step()
    except PermissionError:
        return False  # root of a container that may not change users
    return True


def _landlock(libc: ctypes.CDLL) -> bool:
    """Handle every right that the running kernel knows, and grant none. False where there is no Landlock."""
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), LANDLOCK_VERSION)
    if version < 1:
        return False
    file_rights = 13 + (version >= 2) + (version >= 3) + (version >= 5)
    words = [(1 << file_rights) - 1]
    if version >= 4:
        words.append(0b11)  # bind and connect over TCP
    if version >= 6:
        words.append(0b11)  # abstract sockets and signals outside
    attributes = struct.pack(f"={len(words)}Q", *words)
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return False
    done = libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return bool(done)
