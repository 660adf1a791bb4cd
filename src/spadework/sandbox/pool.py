"""The sandbox: opens programs, each in processes of its own.

What it is and is not. A worker is a process without files, network, secrets, children or rights, forked from a
template that never held any. It is a strong boundary where the kernel offers seccomp and Landlock; `level` says
which layers are in force. A program owns its worker: it can forge the results of its own plays, never those of
another program.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import re
from collections.abc import Collection
from typing import NamedTuple

from spadework.sandbox import wire
from spadework.sandbox.deadlines import Watch
from spadework.sandbox.handles import BaseSandbox
from spadework.sandbox.layers import Layer, LayerName
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import FaultKind, InfrastructureFault
from spadework.sandbox.program import Program, Record
from spadework.sandbox.template import Template
from spadework.sandbox.worker import Lost, WorkerProcess

EXTRAS = ("numpy", "math_verify")
"""Third-party modules that programs may import where they are installed. Their template starts when first needed."""

MAX_TEMPLATE_STARTS = 8
WORKER_STARTS = 3


class Kind(NamedTuple):
    """What processes that come from one template have in common."""

    extras: tuple[str, ...]
    hash_seed: int


class Sandbox(BaseSandbox[Program]):
    """Use it with `async with`, in one event loop. Programs opened in it end with it.

    ``hash_seed`` fixes the hashes of texts, and so the order of sets; a program whose plays differ between two
    sandboxes of different hash seeds depends on that order. ``without`` names layers that are not put in force, so that
    a test can look at the others; the level that ``limits`` require is required all the same.
    """

    def __init__(
        self,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        hash_seed: int = 0,
        without: Collection[LayerName] = (),
    ) -> None:
        if LayerName.PROCESS in without:
            raise ValueError("programs always run in a process of their own")
        super().__init__(limits, hash_seed)
        self._without = tuple(without)
        self._templates: dict[Kind, Template] = {}
        self._starts: dict[Kind, int] = {}
        self._starting = asyncio.Lock()
        self._records: dict[bytes, Record] = {}
        self._programs: list[Program] = []
        self._level: tuple[Layer, ...] = ()
        self._watch: Watch | None = None

    def level(self) -> tuple[Layer, ...]:
        """Every layer of isolation, in force or not, from the weakest to the strongest."""
        return self._level

    async def _start(self) -> None:
        """Start the template, and see what isolation its workers have."""
        self._watch = Watch()
        worker = await self._start_worker("", self.hash_seed)
        worker.stop()
        await worker.ended()

    async def _open(self, source: str, hash_seed: int) -> Program:
        digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).digest()
        record = self._records.get(digest) or Record(lambda culprit: self._records.__setitem__(digest, culprit))
        program = Program(source, self.limits, record, lambda source: self._start_worker(source, hash_seed))
        program.require_usable()
        await program.load()
        self._programs = [*(other for other in self._programs if not other.closed), program]
        return program

    async def _end(self) -> None:
        programs, self._programs = self._programs, []
        templates, self._templates = self._templates, {}
        for program in programs:
            await program.close()
        for template in templates.values():
            await template.close()
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    async def _start_worker(self, source: str, hash_seed: int) -> WorkerProcess:
        """A locked worker that holds ``source`` and has not run it."""
        reason = ""
        for _ in range(WORKER_STARTS):
            template = await self._template(Kind(_extras_of(source), hash_seed))
            try:
                worker = await template.spawn()
            except InfrastructureFault as fault:
                reason = str(fault)
                continue  # the template has died unnoticed; the next turn starts another
            try:
                answer = await worker.request("lock", 0, source, self.limits.load_timeout_s)
            except BaseException:
                worker.stop()
                raise
            if not isinstance(answer, Lost):
                self._level = wire.layers_of(answer.value)
                self._require_isolation(worker)
                return worker
            reason = answer.reason
            if answer.kind is FaultKind.MEMORY:
                reason = f"sandbox.memory_mb = {self.limits.memory_mb} is too little for the modules of the program"
        raise InfrastructureFault(f"a sandbox process could not be set up: {reason}")

    def _require_isolation(self, worker: WorkerProcess) -> None:
        try:
            require(self._level, self.limits)
        except InfrastructureFault:
            worker.stop()
            raise

    async def _template(self, kind: Kind) -> Template:
        async with self._starting:
            self._require_open()
            assert self._watch is not None
            template = self._templates.get(kind)
            if template is None or not template.alive:
                if template is not None:
                    await template.close()
                self._starts[kind] = self._starts.get(kind, 0) + 1
                if self._starts[kind] > MAX_TEMPLATE_STARTS:
                    raise InfrastructureFault(f"the sandbox's template process ended {MAX_TEMPLATE_STARTS} times")
                template = self._templates[kind] = await Template.start(
                    self.limits, kind.extras, kind.hash_seed, self._watch, self._without
                )
            return template


def require(layers: Collection[Layer], limits: Limits) -> None:
    """Raises InfrastructureFault if a layer is not in force without which ``limits`` refuse programs."""
    lacking = [layer for layer in layers if layer.name in limits.required_layers() and not layer.in_force]
    if not lacking:
        return
    listed = isinstance(limits.isolation, tuple)
    setting = "sandbox.isolation" if listed else f"sandbox.isolation = '{limits.isolation}'"
    less = "leave it out of sandbox.isolation" if listed else "accept less with sandbox.isolation = 'best-effort'"
    what = ", ".join(f"{layer.name} ({layer.absent_because})" for layer in lacking)
    needed = "; ".join(dict.fromkeys(layer.purpose.needs for layer in lacking))
    raise InfrastructureFault(f"{setting} requires what is not in force here: {what}; {needed}, or {less}")


def _extras_of(source: str) -> tuple[str, ...]:
    """The installed extras that the source mentions. The host looks at words; it never parses a program."""
    return tuple(
        name for name in EXTRAS if re.search(rf"\b{name}\b", source) and importlib.util.find_spec(name) is not None
    )
