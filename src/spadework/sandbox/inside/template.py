"""The template process: imports once what programs need, then forks a worker for each program.

It talks to the host over one stream socket in messages of 16 bytes, and runs no program itself. It is a single
thread without secrets: started by exec with a hand-made environment and no inherited descriptors.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import socket
import struct
import sys
from pathlib import Path
from types import FrameType
from typing import TypedDict

from spadework.sandbox.inside import generated, imports, lockdown, namespaces, seccomp, worker
from spadework.sandbox.inside.lockdown import Confinement
from spadework.sandbox.layers import LayerName

MESSAGE = struct.Struct("<cxxxiq")
READY, SPAWN, SPAWNED, REFUSED, KILL, DIED = b"R", b"S", b"F", b"E", b"K", b"D"
"""First field of a message. Then a pid or a request number, then a wait status or a pid."""

CHANNEL = 3


class Settings(TypedDict):
    """What the host passes on the command line, as JSON."""

    control: int
    """Descriptor of the stream to the host."""
    parent: int
    packages: dict[str, str]
    """Packages of ours whose modules are imported without running the package itself, and their folders."""
    paths: list[str]
    """Folders of the third-party modules."""
    extras: list[str]
    limits: dict[str, int]
    absent: dict[str, str]
    """Names of layers that are left out, and why."""
    group: str
    """Folder of the control group to enter, if that layer is not absent."""


def main(settings: Settings) -> None:
    """Isolate itself, preload, say so, and serve until the host hangs up. A failed start is told on standard error."""
    absent = {LayerName(name): why for name, why in settings["absent"].items()}
    libc = ctypes.CDLL(None, use_errno=True)
    if LayerName.CONTROL_GROUP not in absent:
        try:
            Path(settings["group"], "cgroup.procs").write_text("0")  # and with this process all that it forks
        except OSError as error:
            absent[LayerName.CONTROL_GROUP] = f"this process may not enter one ({error.strerror})"
    init = _enter_namespaces(libc, absent)
    if sys.platform == "linux":
        pr_set_pdeathsig, pr_set_child_subreaper = 1, 36
        libc.prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)
        libc.prctl(pr_set_child_subreaper, 1, 0, 0, 0)
    if os.getppid() != settings["parent"]:
        return
    imports.preload(settings["extras"], settings["paths"])
    generated.remember()
    folder = -1 if LayerName.EMPTY_ROOT in absent else namespaces.empty_folder(above=CHANNEL)
    if folder < 0:
        absent.setdefault(LayerName.EMPTY_ROOT, f"none of {', '.join(namespaces.FOLDERS)} can be written")
    parent = 0 if init else os.getpid()  # in a pid namespace nobody has a parent outside
    code = seccomp.build() if seccomp.supported() else b""
    confinement = Confinement(settings["limits"], absent, parent, folder, libc, code)
    os.environ.clear()
    os.dup2(0, 2)  # nothing that a program prints goes anywhere
    gc.collect()
    gc.freeze()
    Template(socket.socket(fileno=settings["control"]), confinement, init).run()


def _enter_namespaces(libc: ctypes.CDLL, absent: dict[LayerName, str]) -> int:
    """Of a new pid namespace, the pid of its first process; 0 if there is none."""
    if sys.platform != "linux":
        return 0
    namespaces.enter(libc, absent)
    return 0 if LayerName.PID_NAMESPACE in absent else namespaces.start_init()


class Template:
    """Forks on request, kills on request, reports deaths. Ends when the host hangs up, or its pid namespace is gone."""

    def __init__(self, control: socket.socket, confinement: Confinement, init: int) -> None:
        self._control = control
        self._confinement = confinement
        self._init = init
        self._workers: set[int] = set()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake)

    def run(self) -> None:
        poller = select.poll()
        poller.register(self._control.fileno(), select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        self._tell(READY, os.getpid(), 0)
        while True:
            ready = {descriptor for descriptor, _ in poller.poll()}
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
                if not self._reap():
                    break
            if self._control.fileno() in ready and not self._obey():
                break
        for pid in self._workers:
            _kill_tree(pid)

    def _obey(self) -> bool:
        """One command. False at the end of the stream."""
        data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE.size, 1)
        while data and len(data) < MESSAGE.size:
            more = self._control.recv(MESSAGE.size - len(data))
            if not more:
                return False
            data += more
        if not data:
            return False
        kind, number, pid = MESSAGE.unpack(data)
        if kind == KILL and pid in self._workers:
            _kill_tree(pid)
        elif kind == SPAWN:
            self._spawn(number, descriptors[0])
        return True

    def _spawn(self, number: int, channel: int) -> None:
        try:
            pid = os.fork()
        except OSError:
            os.close(channel)
            self._tell(REFUSED, number, 0)
            return
        if pid == 0:
            _become_worker(channel, self._confinement)
        os.close(channel)
        self._workers.add(pid)
        self._tell(SPAWNED, number, pid)

    def _reap(self) -> bool:
        """False if the first process of the pid namespace is among the dead: the kernel has ended all others."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return True
            if pid == self._init:
                return False
            if pid in self._workers:
                self._workers.discard(pid)
                self._tell(DIED, status, pid)

    def _tell(self, kind: bytes, number: int, value: int) -> None:
        self._control.sendall(MESSAGE.pack(kind, number, value))


def _become_worker(channel: int, confinement: Confinement) -> None:
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if channel != CHANNEL:
            os.dup2(channel, CHANNEL, inheritable=False)
        kept = max(CHANNEL, confinement.empty_folder)
        os.closerange(CHANNEL + 1, kept)
        os.closerange(kept + 1, 4096)
        lockdown.restrain(confinement)
        worker.serve(CHANNEL, confinement)
    finally:
        os._exit(worker.EXIT_BROKEN)


def _kill_tree(pid: int) -> None:
    """Ends the worker and its process group; the worker is not yet reaped, so its pid is still its own."""
    for end in (os.killpg, os.kill):
        try:
            end(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # no group yet, or it is gone


def _wake(number: int, frame: FrameType | None) -> None:
    """The wake-up descriptor does the work."""
