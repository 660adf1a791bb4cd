"""The adapter in training, at the server: written, loaded and proved once for each state of the weights."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from spadework.config import Config
from spadework.engines.base import EngineFault, StaleCohort
from spadework.engines.local.engine import LocalEngine
from spadework.engines.vllm import proof
from spadework.engines.vllm.answers import NotFound, Reply
from spadework.engines.vllm.launch import launch_line
from spadework.engines.vllm.server import AdapterRefused, Connection, Server

READABLE = 0o755
"""The server may run as another user."""


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

    async def current(self, lost: Loaded | None = None) -> Loaded:
        """Of the present weights; loaded first if that was not done, or if it is ``lost``, which the server has not.

        Raises EngineFault, and StaleCohort if the weights change meanwhile.
        """
        proved = self._proved
        if proved is not None and proved is not lost and proved.weights_epoch == self._local.weights_epoch:
            return proved
        if self._loading is None or self._loading.done():
            # In a task, because many may wait for it and each of them may be cancelled.
            self._loading = asyncio.create_task(self._load())
        return await asyncio.shield(self._loading)

    async def _load(self) -> Loaded:
        local, before = self._local, self._given
        epoch, version = local.weights_epoch, local.policy_version
        self._loads += 1
        name = f"spadework-{self._run}-{self._loads}-v{version}"
        new = Loaded(name, Path(self._folder.name).resolve() / name, epoch, version)
        await local.write_adapter(new.directory)
        async with self._server.connected() as connection:
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

    async def _prove(self, connection: Connection, adapter: Loaded) -> None:
        """Sample a short reply and score it here. Raises EngineFault if the two sides do not agree."""
        name = adapter.name
        prompt_ids = proof.prompt_of(self._local.vocabulary)
        params = proof.params_of(self._config.model.max_context_tokens)
        try:
            reply = await connection.complete(name, prompt_ids, params)
        except NotFound as error:
            raise EngineFault(
                f"the vLLM server at {self._server.url} loaded the adapter {name} and does not know it ({error}); "
                "let engine.vllm.base_url be the address of one server and not of several"
            ) from None
        require_model(reply, name)
        sampled = proof.datum_of(prompt_ids, reply, proof.TEMPERATURE)
        (scored,) = await self._local.score([sampled])
        if self._local.weights_epoch != adapter.weights_epoch:
            raise StaleCohort("the weights changed while their adapter was loaded; update between cohorts only")
        gap, most = proof.mean_difference(sampled, scored), self._config.engine.vllm.max_mismatch
        if gap <= most:
            return
        (untempered,) = await self._local.score([proof.datum_of(prompt_ids, reply, 1.0)])
        if proof.mean_difference(sampled, untempered) <= most:
            raise EngineFault(
                f"the vLLM server at {self._server.url} gives log-probabilities of before the temperature; stop it and "
                f"start it with: {launch_line(self._config)}"
            )
        raise EngineFault(
            f"the vLLM server at {self._server.url} does not sample from the model that is trained here: "
            f"log-probabilities differ by {gap:.3g} on average and engine.vllm.max_mismatch is {most:g}; see that its "
            f"model {self._config.engine.vllm.model} is {self._config.model.path} in the precision of engine.dtype "
            "and that vLLM computes all of it (docs/vllm.md), or raise that setting"
        )

    def _not_loaded(self, adapter: Loaded, refused: AdapterRefused) -> str:
        said = str(refused)
        where = f"the vLLM server at {self._server.url}"
        if "No adapter found" in said or "does not exist" in said:
            return (
                f"{where} does not find the adapter in {adapter.directory} ({said}); set engine.vllm.adapter_dir to a "
                "directory that both see at the same path"
            )
        return f"{where} did not load the adapter ({said}); see its log, or start it with: {launch_line(self._config)}"


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
        Path(folder.name).chmod(READABLE)
    except OSError as error:
        raise EngineFault(
            f"no adapters can be written to engine.vllm.adapter_dir {place} ({error.strerror}); name a directory that "
            "exists, that may be written and that the server sees at the same path"
        ) from error
    return folder
