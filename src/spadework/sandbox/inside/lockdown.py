"""The layers that hold a worker, put in force from within it.

`restrain` acts right after the fork. `lock` acts when the modules that the program needs are imported and
before any line of the program runs; it tells which layers the kernel put in force.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from spadework.sandbox.inside import seccomp
from spadework.sandbox.layers import LayerName

NOBODY = 65534
MEBIBYTE = 1 << 20
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
CAPABILITY_VERSION_3 = 0x20080522
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF, LANDLOCK_VERSION = 444, 446, 1

NOT_LINUX = f"{sys.platform} has none"
REFUSED = "the kernel refused it"


@dataclass(frozen=True)
class Confinement:
    """What the template has found out and a worker needs."""

    limits: Mapping[str, int]
    absent: Mapping[LayerName, str]
    """Layers that are not to be tried, or were tried in vain, and why."""
    parent: int
    """What `os.getppid` says in a worker while the template lives."""
    empty_folder: int
    """Descriptor of the folder that becomes the root directory; -1 if there is none."""
    libc: ctypes.CDLL
    system_call_filter: bytes
    """Of `seccomp.build`; empty if this machine is not known."""


def restrain(confinement: Confinement) -> None:
    """Own session, death with the template, resource limits. Exits if the template is already gone."""
    os.setsid()
    if LayerName.DIES_WITH_HOST not in confinement.absent:
        _die_with_parent(confinement.libc)
    if os.getppid() != confinement.parent:
        os._exit(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with contextlib.suppress(OSError):
        os.nice(5)
    if LayerName.RESOURCE_LIMITS not in confinement.absent:
        for kind, value in _resource_limits(confinement.limits):
            with contextlib.suppress(OSError, ValueError):  # `lock` looks whether it is in force
                resource.setrlimit(kind, (value, value))


def lock(confinement: Confinement) -> list[tuple[str, str]]:
    """Give up every right. Returns each layer with the reason why it is not in force, which is empty if it is."""
    found = dict(confinement.absent)
    for name, put_in_force in _steps(confinement).items():
        if name not in found:
            found[name] = put_in_force()
    return [(name, found.get(name, "")) for name in LayerName]


def _steps(confinement: Confinement) -> dict[LayerName, Callable[[], str]]:
    """How each layer of a worker is put in force, in this order. A step returns why it is not; empty if it is."""
    steps = {
        LayerName.RESOURCE_LIMITS: lambda: _limits_hold(confinement.limits),
        LayerName.EMPTY_ROOT: lambda: _enter_empty_root(confinement.empty_folder),
        LayerName.USER_NOBODY: _become_nobody,
    }
    if sys.platform != "linux":
        rest = [name for name in LayerName if name not in (LayerName.PROCESS, *steps)]
        return steps | dict.fromkeys(rest, lambda: NOT_LINUX)
    libc = confinement.libc
    return steps | {
        LayerName.NO_CAPABILITIES: lambda: _drop_capabilities(libc),
        LayerName.DIES_WITH_HOST: lambda: _die_with_parent(libc),  # again: changing the user cleared it
        LayerName.NO_NEW_PRIVILEGES: lambda: _gain_nothing(libc),
        LayerName.LANDLOCK: lambda: _landlock(libc),
        LayerName.SECCOMP: lambda: _filter_system_calls(libc, confinement.system_call_filter),
    }


def _told(done: bool) -> str:
    return "" if done else REFUSED


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


def _limits_hold(limits: Mapping[str, int]) -> str:
    return _told(all(resource.getrlimit(kind)[1] == value for kind, value in _resource_limits(limits)))


def _die_with_parent(libc: ctypes.CDLL) -> str:
    if sys.platform != "linux":
        return NOT_LINUX
    return _told(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0)


def _enter_empty_root(folder: int) -> str:
    try:
        os.fchdir(folder)
        os.chroot(".")
    except PermissionError:
        return "without a user namespace this user may not change its root directory"
    except OSError as error:
        return str(error.strerror)
    finally:
        os.close(folder)
    return ""


def _become_nobody() -> str:
    if os.geteuid() != 0:
        return "only root can change users: programs run as the user of spadework"
    steps: tuple[Callable[[], None], ...] = (
        lambda: os.setgroups([]),
        lambda: os.setresgid(NOBODY, NOBODY, NOBODY),
        lambda: os.setresuid(NOBODY, NOBODY, NOBODY),
    )
    try:
        for step in steps:
            step()
    except PermissionError:
        return "this root may not change its user, as in a container without capabilities"
    return ""


def _drop_capabilities(libc: ctypes.CDLL) -> str:
    """Effective, permitted and inheritable ones; without permitted ones no bounding set matters."""
    header, nothing = struct.pack("=Ii", CAPABILITY_VERSION_3, 0), struct.pack("=6I", *[0] * 6)
    return _told(libc.capset(header, nothing) == 0)


def _gain_nothing(libc: ctypes.CDLL) -> str:
    """Neither rights by running another program, nor a look into this process by one of the same user."""
    done = libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
    return _told(done)


def _landlock(libc: ctypes.CDLL) -> str:
    """Handle every right that the running kernel knows, and grant none."""
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), LANDLOCK_VERSION)
    if version < 1:
        disabled = ctypes.get_errno() == errno.EOPNOTSUPP
        return "Landlock was not enabled when the kernel was booted" if disabled else "this kernel has no Landlock"
    file_rights = 13 + (version >= 2) + (version >= 3) + (version >= 5)
    words = [(1 << file_rights) - 1]
    if version >= 4:
        words.append(0b11)  # bind and connect over TCP
    if version >= 6:
        words.append(0b11)  # abstract sockets and signals outside
    attributes = struct.pack(f"={len(words)}Q", *words)
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return REFUSED
    done = libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return _told(done)


def _filter_system_calls(libc: ctypes.CDLL, code: bytes) -> str:
    if not code:
        return f"no filter is known for {platform.machine()}"
    return _told(seccomp.install(libc, seccomp.bind(code, os.getpid())))
