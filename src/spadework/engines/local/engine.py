"""The engine protocol on one machine. All tensor work runs in one worker thread, so the event loop stays free."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from spadework.config import EngineConfig, LearningConfig, ModelConfig
from spadework.engines.base import Datum, ForwardBackward, OptimStep, StaleCohort
from spadework.engines.data import check
from spadework.engines.local import adapter, checkpoint, memory, update
from spadework.engines.local.cohort import LocalCohort
from spadework.engines.local.kvcache import MemberCache
from spadework.engines.local.model import Model, OpenedModel, open_model
from spadework.engines.local.optimiser import Optimiser
from spadework.engines.local.placement import place
from spadework.engines.local.sampling import Reply, Request, Sampler
from spadework.learning.loss import PolicyLoss

Result = TypeVar("Result")

COUNTED = 1 << 22
"""Weights, at most, that are looked at to count those that did not change."""


@dataclass(frozen=True)
class UnchangedWeights:
    """How many of ``total`` weights, evenly spaced among all, are bit for bit what they were at the last count."""

    unchanged: int
    total: int


class LocalEngine:
    """Samples and learns with one model on one device; `open` is the way to make one.

    On the CPU equal calls give equal bits for an equal number of threads. Dropout is never active. Calls are served one
    at a time.
    """

    def __init__(
        self, opened: OpenedModel, engine: EngineConfig, model: ModelConfig, learning: LearningConfig, seed: int
    ) -> None:
        self._model, self._tokenizer = opened.model, opened.tokenizer
        self._cache_shape, self._directory = opened.cache_shape, opened.directory
        self._config, self._model_config = engine, model
        self._train_tokens = engine.train_tokens_on(opened.model.device.type)
        self._base: str | None = None
        self._start: dict[str, torch.Tensor] | None = None
        self._reference: Model | None = None
        if model.lora_rank:
            self._add_adapter(adapter.AdapterSettings(model.lora_rank, model.lora_alpha, model.lora_targets, seed))
        elif learning.kl_coefficient > 0:
            self._reference = opened.model.frozen_copy()
        if engine.gradient_checkpointing:
            self._model.recompute_layers()
        self._optimiser = Optimiser(
            self._model.parameters(),
            betas=learning.betas,
            weight_decay=learning.weight_decay,
            max_grad_norm=learning.max_grad_norm,
        )
        self._sampler = Sampler(self._model, self._cache_shape)
        self._policy_version, self._weights_epoch = 0, 0
        self._counted = self._copy_weights()
        threads = engine.threads or _free_cores()
        self._worker = ThreadPoolExecutor(1, "engine", initializer=torch.set_num_threads, initargs=(threads,))

    @classmethod
    def open(
        cls, model_dir: Path, engine: EngineConfig, model: ModelConfig, learning: LearningConfig, seed: int = 0
    ) -> LocalEngine:
        """Load the model of a directory; ``seed`` names the draws of a new adapter's weights.

        Raises ModelUnusable, DeviceUnavailable, AdapterUnusable and OutOfMemory, each with a sentence that says why and
        what to do.
        """
        memory.keep_freed_memory()
        placement = place(engine.device, engine.dtype)
        with memory.explained(
            "the weights and what is trained of them",
            "set model.lora_rank to train an adapter alone, or take a smaller model",
        ):
            return cls(open_model(model_dir, model.max_context_tokens, placement), engine, model, learning, seed)

    @property
    def policy_version(self) -> int:
        return self._policy_version

    @property
    def weights_epoch(self) -> int:
        """Changes whenever the weights do, also by `load`; cohorts are bound to it."""
        return self._weights_epoch

    @property
    def max_context_tokens(self) -> int:
        return self._model_config.max_context_tokens

    @property
    def vocabulary(self) -> int:
        return self._model.vocabulary

    @property
    def directory(self) -> Path:
        """Where the model was read from."""
        return self._directory

    @property
    def precision(self) -> str:
        """Of weights and activations: `float32` or `bfloat16`."""
        return str(self._model.dtype).removeprefix("torch.")

    @property
    def sample_batch(self) -> int:
        return self._config.sample_batch

    def new_cache(self) -> MemberCache:
        return self._cache_shape.empty()

    def cohort(self, size: int) -> LocalCohort:
        """See `engines.base.Engine`. The cohort is bound to the present weights and stale after any change of them."""
        return LocalCohort(self, size)

    async def generate(self, requests: Sequence[Request], weights_epoch: int) -> list[Reply]:
        """Serve one chunk of a cohort; see `cohort.Generator`."""

        def work() -> list[Reply]:
            if weights_epoch != self._weights_epoch:
                raise StaleCohort("the weights changed while a cohort waited for replies; update between cohorts only")
            with memory.explained(
                f"a batch of {len(requests)} rows",
                f"lower engine.sample_batch (now {self._config.sample_batch}), model.max_context_tokens or "
                "curriculum.plays",
            ):
                return self._sampler.generate(requests)

        return await self._run(work)

    async def score(self, data: Sequence[Datum], *, reference: bool = False) -> tuple[tuple[float, ...], ...]:
        """See `engines.base.Engine`. Raises ValueError for malformed data or without reference weights."""
        if reference and self._base is None and self._reference is None:
            raise ValueError("there are no reference weights: they are kept only if learning.kl_coefficient is above 0")
        check(data, self.max_context_tokens, self.vocabulary)

        def work() -> tuple[tuple[float, ...], ...]:
            with self._explained_update():
                if not reference:
                    return update.score(self._model, data, self._train_tokens)
                if self._reference is not None:
                    return update.score(self._reference, data, self._train_tokens)
                with adapter.as_at_start(self._model.network, self._start):
                    return update.score(self._model, data, self._train_tokens)

        return await self._run(work)

    async def forward_backward(self, data: Sequence[Datum], loss: PolicyLoss) -> ForwardBackward:
        """See `engines.base.Engine`. Raises ValueError for malformed data; then nothing was accumulated."""
        check(data, self.max_context_tokens, self.vocabulary)

        def work() -> ForwardBackward:
            self._optimiser.drop_grads()
            with self._explained_update():
                found = update.backward(self._model, data, self._train_tokens, loss)
                return ForwardBackward(found.loss, found.logprobs, found.clipped_share, self._optimiser.accumulate())

        return await self._run(work)

    async def optim_step(self, learning_rate: float) -> OptimStep:
        """See `engines.base.Engine`. Raises ValueError if no gradient was accumulated."""

        def work() -> OptimStep:
            with memory.explained(
                "the optimiser's moments", "set model.lora_rank to train an adapter alone, or take a smaller model"
            ):
                step = self._optimiser.step(learning_rate)
            if step.applied:
                self._policy_version += 1
                self._weights_epoch += 1
            return OptimStep(step.grad_norm, step.applied, self._policy_version)

        return await self._run(work)

    async def save(self, directory: Path) -> None:
        """Write weights, moments and counts. Raises ValueError while a gradient waits to be applied."""
        if self._optimiser.has_gradient:
            raise ValueError("a gradient waits to be applied and would be lost: save after optim_step")

        def work() -> None:
            weights = {name: value.detach() for name, value in self._optimiser.weights.items()}
            moments, version = self._optimiser.state(), self._policy_version
            checkpoint.write(directory, checkpoint.Saved(weights, moments, version, self._base))

        await self._run(work)

    async def load(self, directory: Path) -> None:
        """Continue from what `save` wrote. Raises CheckpointUnusable; then the engine is as it was."""

        def work() -> None:
            saved = checkpoint.read(directory)
            checkpoint.check_base(saved, self._base, directory)
            if not self._optimiser.fits(saved.optimiser):
                raise checkpoint.CheckpointUnusable(f"the optimiser state in {directory} is of another model")
            checkpoint.restore_weights(self._optimiser.weights, saved.weights, directory)
            self._optimiser.round_masters()
            self._optimiser.restore(saved.optimiser)
            self._policy_version = saved.policy_version
            self._weights_epoch += 1
            self._counted = self._copy_weights()

        await self._run(work)

    async def export(self, directory: Path) -> None:
        """Write weights, configuration and tokenizer as `from_pretrained` reads them.

        With ``model.lora_export`` "adapter" it is the adapter alone, as peft reads it, and the tokenizer.
        """

        def work() -> None:
            directory.mkdir(parents=True, exist_ok=True)
            if self._base is None:
                self._model.network.save_pretrained(directory)
            elif self._model_config.lora_export == "adapter":
                adapter.write(directory, self._model.network, str(self._directory))
            else:
                network = self._model.network
                network.save_pretrained(directory, state_dict=adapter.merged_state(network))
            self._tokenizer.save_pretrained(directory)

        await self._run(work)

    async def write_adapter(self, directory: Path) -> None:
        """Write the adapter alone, as peft reads it. Raises ValueError if all weights are trained."""
        if self._base is None:
            raise ValueError("there is no adapter: model.lora_rank is 0")
        await self._run(lambda: adapter.write(directory, self._model.network, str(self._directory)))

    async def weight_checksum(self) -> str:
        """A digest of the bits of every weight that is trained: any change of the weights shows."""

        def work() -> str:
            digest = hashlib.blake2b(digest_size=16)
            for name, parameter in sorted(self._model.parameters().items()):
                digest.update(name.encode())
                digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().data)
            return digest.hexdigest()

        return await self._run(work)

    async def count_unchanged_weights(self) -> UnchangedWeights:
        """Compare with the weights at the last call (or `open` or `load`, whichever came last), then remember these.

        Nearly all of them unchanged after several steps means that the learning rate is too small for float32.
        """

        def work() -> UnchangedWeights:
            now = self._copy_weights()
            same = sum(int((now[name] == self._counted[name]).sum()) for name in now)
            self._counted = now
            return UnchangedWeights(same, sum(value.numel() for value in now.values()))

        return await self._run(work)

    def _add_adapter(self, settings: adapter.AdapterSettings) -> None:
        network = self._model.network
        self._base = adapter.digest_of_base(network)
        adapter.add(network, settings)
        if self._model_config.adapter:
            adapter.start_from(Path(self._model_config.adapter).expanduser(), network, settings)
            self._start = {name: value.detach().clone() for name, value in adapter.weights(network).items()}

    def _copy_weights(self) -> dict[str, torch.Tensor]:
        weights = self._optimiser.weights
        stride = 1 + sum(value.numel() for value in weights.values()) // COUNTED
        return {name: value.detach().flatten()[::stride].clone() for name, value in weights.items()}

    def _explained_update(self) -> AbstractContextManager[None]:
        remedy = f"lower engine.train_tokens (now {self._train_tokens})"
        if not self._config.gradient_checkpointing:
            remedy += " or set engine.gradient_checkpointing=true"
        return memory.explained("a micro-batch of the update", remedy)

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)


def _free_cores() -> int:
    """Those that the process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
