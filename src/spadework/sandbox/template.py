"""The host's handle on a template process: start it, have it fork and kill workers, hear of deaths."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import weakref
from collections.abc import Collection, Sequence
from pathlib import Path

import msgpack

from spadework.sandbox import control_group
from spadework.sandbox.deadlines import Watch
from spadework.sandbox.inside.template import DIED, KILL, MESSAGE, READY, REFUSED, SPAWN, SPAWNED, Settings
from spadework.sandbox.layers import SWITCHED_OFF, LayerName
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import InfrastructureFault
from spadework.sandbox.worker import WorkerProcess

START_TIMEOUT_S = 60.0
SPAWN_TIMEOUT_S = 30.0
END_TIMEOUT_S = 2.0
POLL_S = 0.005
FORKS_AT_ONCE = 32
"""Few enough that neither side's socket buffer can fill while the other writes."""

BOOT = """
import json, sys, types
settings = json.loads(sys.argv[1])
for name, folder in settings["packages"].items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
standard = list(sys.path)
sys.path.extend(settings["paths"])
from spadework.sandbox.inside import template
sys.path[:] = standard
template.main(settings)
"""

ENVIRONMENT = {
    "PYTHONUTF8": "1",
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class Template:
    """One running template. Use `start`; a dead one stays dead and takes its workers with it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        control: socket.socket,
        limits: Limits,
        watch: Watch,
        group: Path | None = None,
    ) -> None:
        self.alive = True
        self._group = group
        self._process = process
        self._control = control
        self._limits = limits
        self._watch = watch
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[bool] = self._loop.create_future()
        self._spawning: dict[int, tuple[WorkerProcess, asyncio.Future[bool]]] = {}
        self._workers: dict[int, WorkerProcess] = {}
        self._next_number = 0
        self._few_at_once = asyncio.Semaphore(FORKS_AT_ONCE)
        self._received = bytearray()
        self._finalizer = weakref.finalize(self, _end, process, control)
        self._loop.add_reader(control.fileno(), self._on_message)

    @classmethod
    async def start(
        cls, limits: Limits, extras: Sequence[str], hash_seed: int, watch: Watch, without: Collection[LayerName] = ()
    ) -> Template:
        """A template that has imported the standard modules and ``extras``, and leaves out the layers ``without``.

        Raises InfrastructureFault, with what the process wrote, if it does not start.
        """
        group, absent = _control_group(limits, without)
        ours, theirs = socket.socketpair()
        package = Path(__file__).parent
        settings = Settings(
            control=theirs.fileno(),
            parent=os.getpid(),
            packages={"spadework": str(package.parent), "spadework.sandbox": str(package)},
            paths=_folders(extras),
            extras=list(extras),
            limits={name: value for name, value in limits.model_dump().items() if isinstance(value, int)},
            absent=absent,
            group=str(group or ""),
        )
        try:
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-s", "-S", "-B", "-P", "-c", BOOT, json.dumps(settings)],
                    env={**ENVIRONMENT, "PYTHONHASHSEED": str(hash_seed)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    cwd="/",
                )
        except OSError:
            ours.close()
            if group is not None:
                control_group.remove(group)
            raise
        template = cls(process, ours, limits, watch, group)
        assert process.stderr is not None
        try:
            started = await asyncio.wait_for(asyncio.shield(template._ready), START_TIMEOUT_S)
            words = "" if started else process.stderr.read().decode("utf-8", "replace").strip()
        except TimeoutError:
            started, words = False, f"nothing heard for {START_TIMEOUT_S:g} s"
        except asyncio.CancelledError:
            await template.close()
            raise
        finally:
            process.stderr.close()
        if not started:
            await template.close()
            raise InfrastructureFault(f"the sandbox's template process did not start: {words[-500:]}")
        return template

    async def spawn(self) -> WorkerProcess:
        """A new worker, not yet locked. Raises InfrastructureFault if the template cannot fork or is gone."""
        async with self._few_at_once:
            return await self._spawn()

    async def _spawn(self) -> WorkerProcess:
        if not self.alive:
            raise InfrastructureFault("the sandbox's template process has ended")
        ours, theirs = socket.socketpair()
        worker = WorkerProcess(ours, self._limits, self._watch, self.kill)
        number = self._next_number = (self._next_number + 1) % 2**31
        done: asyncio.Future[bool] = self._loop.create_future()
        self._spawning[number] = worker, done
        with theirs:
            try:
                socket.send_fds(self._control, [MESSAGE.pack(SPAWN, number, 0)], [theirs.fileno()])
            except OSError:
                self._lost()
        try:
            forked = await asyncio.wait_for(done, SPAWN_TIMEOUT_S)
        except TimeoutError:
            self._lost()
            forked = False
        if not forked:
            worker.end_without_process()
            raise InfrastructureFault("the sandbox could not fork a worker")
        return worker

    def kill(self, worker: WorkerProcess) -> None:
        """End a worker's process group. Its death is reported as any other."""
        if self.alive and self._workers.get(worker.pid) is worker:
            with contextlib.suppress(OSError):  # a template that is gone has taken its workers with it
                self._control.send(MESSAGE.pack(KILL, 0, worker.pid))

    async def close(self) -> None:
        """End the template and all its workers, and reap it."""
        self._lost()
        deadline = self._loop.time() + END_TIMEOUT_S
        while self._process.poll() is None:
            if self._loop.time() > deadline:
                self._process.kill()
            await asyncio.sleep(POLL_S)
        while self._group is not None and not control_group.remove(self._group) and self._loop.time() < deadline:
            await asyncio.sleep(POLL_S)
        self._finalizer.detach()

    def _on_message(self) -> None:
        try:
            data = self._control.recv(1 << 14, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        self._received += data
        while len(self._received) >= MESSAGE.size:
            kind, number, value = MESSAGE.unpack(self._received[: MESSAGE.size])
            del self._received[: MESSAGE.size]
            if kind == READY:
                self._ready.set_result(True)
            elif kind == SPAWNED:
                worker, done = self._spawning.pop(number)
                worker.pid = value
                self._workers[value] = worker
                if not done.done():
                    done.set_result(True)
                else:
                    self.kill(worker)
            elif kind == REFUSED:
                _resolve(self._spawning.pop(number)[1], False)
            elif kind == DIED:
                self._workers.pop(value).died(number)

    def _lost(self) -> None:
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        _resolve(self._ready, False)
        for _, done in self._spawning.values():
            _resolve(done, False)
        for worker in list(self._workers.values()):
            worker.lost_with_template()
        self._workers.clear()


def _control_group(limits: Limits, without: Collection[LayerName]) -> tuple[Path | None, dict[str, str]]:
    """(the folder of a new group if one can be made, layers that are left out and why)."""
    absent = dict.fromkeys(map(str, without), SWITCHED_OFF)
    if LayerName.CONTROL_GROUP in without:
        return None, absent
    try:
        return control_group.make(limits.total_memory_mb), absent
    except control_group.NoControlGroup as reason:
        return None, absent | {LayerName.CONTROL_GROUP: str(reason)}


def _resolve(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)


def _folders(extras: Sequence[str]) -> list[str]:
    """Where msgpack and the extras lie, found without importing the extras."""
    folders = [str(Path(msgpack.__file__).parent.parent)]
    for extra in extras:
        spec = importlib.util.find_spec(extra)
        if spec is None or spec.origin is None:
            raise InfrastructureFault(f"the module {extra} is not installed")
        folders.append(str(Path(spec.origin).parent.parent))
    return list(dict.fromkeys(folders))


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    """For a sandbox that was never closed."""
    control.close()
    process.kill()
    process.wait()
