"""The adapter in training, at the server: written, loaded and proved once for each state of the weights."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError

from spadework.config import Config
from spadework.engines.base import EngineFault, StaleCohort
from spadework.engines.local.engine import LocalEngine
from spadework.engines.vllm import proof
from spadework.engines.vllm.answers import NotFound, Reply
from spadework.engines.vllm.launch import launch_line
from spadework.engines.vllm.server import AdapterRefused, Connection, Server
from spadework.errors import first_line

FOLDER_MODE, FILE_MODE = 0o755, 0o644
"""Whatever the umask: the server may run as another user."""


@dataclass(frozen=True)
class Loaded:
    """An adapter at the server, and the weights that it holds."""

    name: str
    directory: Path
    weights_epoch: int
    policy_version: int


class Adapters:
    """Every load has a name that was never used, so that nothing the server kept of an earlier adapter, its cache of
    prefixes above all, can be taken for this one's.
    """

    def __init__(self, config: Config, local: LocalEngine, server: Server) -> None:
        """Raises EngineFault if nothing can be written where `engine.vllm.adapter_dir` says."""
        self._config, self._local, self._server = config, local, server
        self._folder = _folder(config.engine.vllm.adapter_dir)
        self._run, self._loads = uuid.uuid4().hex[:8], 0
        self._given: Loaded | None = None
        self._proved: Loaded | None = None
        self._loading: asyncio.Task[Loaded] | None = None
        self._loading_epoch = -1

    async def current(self, lost: Loaded | None = None) -> Loaded:
        """Of the present weights; loaded first if that was not done, or if it is ``lost``, which the server has not.

        Raises EngineFault, and StaleCohort if the weights change meanwhile.
        """
        while True:
            proved, epoch = self._proved, self._local.weights_epoch
            if proved is not None and proved is not lost and proved.weights_epoch == epoch:
                return proved
            if self._loading is None or self._loading.done():
                # In a task, because many may wait for it and each of them may be cancelled.
                self._loading, self._loading_epoch = asyncio.create_task(self._load(epoch)), epoch
            if self._loading_epoch == epoch:
                return await asyncio.shield(self._loading)
            # Of older weights: what comes of it is for those who asked for them.
            await asyncio.wait({self._loading})

    async def _load(self, epoch: int) -> Loaded:
        async with self._server.connected() as connection:
            try:
                return await self._load_once(connection, epoch)
            except NotFound:  # as if it was started again between the load and the proof
                pass
            try:
                return await self._load_once(connection, epoch)
            except NotFound as error:
                raise EngineFault(
                    f"the vLLM server at {self._server.url} loaded an adapter twice and did not know it afterwards "
                    f"({error}); see in its log whether it was started again, and let engine.vllm.base_url be the "
                    "address of one server and not of several"
                ) from None

    async def _load_once(self, connection: Connection, epoch: int) -> Loaded:
        """Raises NotFound if the server does not know what it loaded, EngineFault and StaleCohort."""
        before, version = self._given, self._local.policy_version
        self._loads += 1
        name = f"spadework-{self._run}-{self._loads}-v{version}"
        new = Loaded(name, Path(self._folder.name).resolve() / name, epoch, version)
        await self._write(new.directory)
        if before is not None:
            await connection.unload(before.name)
            shutil.rmtree(before.directory, ignore_errors=True)
        self._given, self._proved = new, None
        try:
            await connection.load(name, str(new.directory))
        except AdapterRefused as refused:
            raise EngineFault(self._not_loaded(new, refused)) from None
        await self._prove(connection, new)
        self._proved = new
        return new

    async def _write(self, directory: Path) -> None:
        try:
            await self._local.write_adapter(directory)
            directory.chmod(FOLDER_MODE)
            for file in directory.iterdir():
                file.chmod(FILE_MODE)
        except (OSError, SafetensorError) as error:
            place = self._config.engine.vllm.adapter_dir or "empty: the temporary directory of this machine"
            raise EngineFault(
                f"the adapter cannot be written to {directory} ({first_line(error)}); make room there (it is in "
                f"engine.vllm.adapter_dir, {place}) and give the same command to continue from the last checkpoint"
            ) from error

    async def _prove(self, connection: Connection, adapter: Loaded) -> None:
        """Sample a short reply and score it here.

        Raises EngineFault if the two sides do not agree, NotFound and StaleCohort.
        """
        prompt_ids = proof.prompt_of(self._local.vocabulary)
        params = proof.params_of(self._config.model.max_context_tokens)
        reply = await connection.complete(adapter.name, prompt_ids, params)
        require_model(reply, adapter.name)
        sampled = proof.datum_of(prompt_ids, reply, proof.TEMPERATURE)
        (scored,) = await self._local.score([sampled])
        if self._local.weights_epoch != adapter.weights_epoch:
            raise StaleCohort("the weights changed while their adapter was loaded; update between cohorts only")
        gap = proof.mean_difference(sampled, scored)
        most = self._config.engine.vllm.max_mismatch_in(self._local.precision)
        if gap <= most:
            return
        (untempered,) = await self._local.score([proof.datum_of(prompt_ids, reply, 1.0)])
        if proof.mean_difference(sampled, untempered) <= most:
            raise EngineFault(
                f"the vLLM server at {self._server.url} gives log-probabilities of before the temperature; stop it and "
                f"start it with: {self._launch}"
            )
        raise EngineFault(
            f"the vLLM server at {self._server.url} does not sample from the model that is trained here: "
            f"log-probabilities differ by {gap:.3g} on average where {most:g} is allowed (engine.vllm.max_mismatch); "
            f"either its model {self._config.engine.vllm.model} is not {self._config.model.path}, or it has older "
            "weights or a layer that it leaves out (docs/vllm.md), or another precision than the trainer's "
            f"{self._local.precision} (a server in bfloat16 and a trainer in float32 need engine.vllm.max_mismatch=0.1)"
        )

    @property
    def _launch(self) -> str:
        return launch_line(self._config, str(self._local.directory))

    def _not_loaded(self, adapter: Loaded, refused: AdapterRefused) -> str:
        said = str(refused)
        where = f"the vLLM server at {self._server.url}"
        if "No adapter found" in said or "does not exist" in said:
            return (
                f"{where} does not find the adapter in {adapter.directory} ({said}); set engine.vllm.adapter_dir to a "
                "directory that both see at the same path"
            )
        return f"{where} did not load the adapter ({said}); see its log, or start it with: {self._launch}"


def require_model(reply: Reply, name: str) -> None:
    """Raises EngineFault for a reply that something else sampled."""
    if reply.model != name:
        raise EngineFault(
            f"the vLLM server answered with {reply.model} where {name} was asked for, so that other weights sampled; "
            "see its log, start it again and give the same command to continue from the last checkpoint"
        )


def _folder(place: str) -> tempfile.TemporaryDirectory[str]:
    try:
        folder = tempfile.TemporaryDirectory(
            prefix="spadework-adapters-", dir=Path(place).expanduser() if place else None, ignore_cleanup_errors=True
        )
        Path(folder.name).chmod(FOLDER_MODE)
    except OSError as error:
        raise EngineFault(
            f"no adapters can be written to engine.vllm.adapter_dir {place} ({error.strerror}); name a directory that "
            "exists, that may be written and that the server sees at the same path"
        ) from error
    return folder
