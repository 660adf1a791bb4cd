"""Namespaces of the template, entered once and inherited by every worker that it forks.

Hosts refuse them one by one, so the kernel is asked for each. There is no mount namespace: its owner could mount, while
a worker's root directory can be an empty folder without one.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from spadework.sandbox.layers import LayerName

FLAGS: Mapping[LayerName, int] = MappingProxyType(
    {
        LayerName.USER_NAMESPACE: 0x10000000,  # first, since an ordinary user gets the others in it alone
        LayerName.UTS_NAMESPACE: 0x04000000,
        LayerName.IPC_NAMESPACE: 0x08000000,
        LayerName.PID_NAMESPACE: 0x20000000,
        LayerName.NETWORK_NAMESPACE: 0x40000000,
    }
)
HOST_NAME = "sandbox"
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run")

WHY = {
    errno.EPERM: "not permitted here, as is usual inside a container",
    errno.ENOSPC: "the host allows no more of them",
    errno.EINVAL: "this kernel has none",
    errno.ENOSYS: "this kernel has none",
}


def enter(libc: ctypes.CDLL, absent: dict[LayerName, str]) -> None:
    """Enter each namespace that is not in ``absent``; those that the host refuses are added there with the reason.

    ``libc`` keeps errno, and the caller has one thread. A pid namespace holds its later children, not itself.
    """
    for name, flag in FLAGS.items():
        if name in absent:
            continue
        refusal = _user_namespace(libc, flag) if name is LayerName.USER_NAMESPACE else _unshare(libc, flag)
        if refusal:
            absent[name] = refusal
    if LayerName.UTS_NAMESPACE not in absent:
        socket.sethostname(HOST_NAME)


def start_init() -> int:
    """The first process of the new pid namespace, which ends with its caller and takes the others there with it."""
    read, _open_while_the_caller_lives = os.pipe()
    pid = os.fork()
    if pid:
        os.close(read)
        return pid
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans are reaped
        os.dup2(read, 0)
        os.closerange(1, 4096)
        os.read(0, 1)
    finally:
        os._exit(0)


def empty_folder(above: int) -> int:
    """A descriptor greater than ``above`` of an empty folder that has lost its name, so that nothing can be made in it.

    -1 if no folder can be made.
    """
    name = f"spadework-{os.getpid()}-{os.urandom(8).hex()}"
    for folder in FOLDERS:
        path = Path(folder, name)
        try:
            path.mkdir(0o700)
        except OSError:
            continue  # not there or not writable: the next may be
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        path.rmdir()
        moved = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, above + 1)
        os.close(opened)
        return moved
    return -1


def _unshare(libc: ctypes.CDLL, flag: int) -> str:
    """Why the kernel refused it; empty if it did not."""
    if libc.unshare(flag) == 0:
        return ""
    number = ctypes.get_errno()
    return WHY.get(number, os.strerror(number))


def _user_namespace(libc: ctypes.CDLL, flag: int) -> str:
    if os.geteuid() == 0:
        return "not used where spadework runs as root"
    # Some hosts grant one and then no right in it: there is no way back, so a child tries it first.
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            refusal = _enter_user_namespace(libc, flag) or _unshare(libc, FLAGS[LayerName.UTS_NAMESPACE])
            os.write(write, refusal.encode())
        finally:
            os._exit(0)
    os.close(write)
    refusal = os.read(read, 1024).decode()
    os.close(read)
    os.waitpid(child, 0)
    return refusal or _enter_user_namespace(libc, flag)


def _enter_user_namespace(libc: ctypes.CDLL, flag: int) -> str:
    """In which this user is itself and there is nobody else."""
    user, group = os.geteuid(), os.getegid()
    refusal = _unshare(libc, flag)
    if refusal:
        return refusal
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        return f"the host grants no rights in it ({error.strerror})"
    return ""
