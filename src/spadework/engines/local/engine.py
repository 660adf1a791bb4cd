"""The engine protocol on one machine. All tensor work runs in one worker thread, so the event loop stays free."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from spadework.config import EngineConfig, LearningConfig, ModelConfig
from spadework.engines.base import Datum, ForwardBackward, OptimStep, StaleCohort
from spadework.engines.data import check
from spadework.engines.local import checkpoint, update
from spadework.engines.local.cohort import LocalCohort
from spadework.engines.local.kvcache import MemberCache
from spadework.engines.local.memory import keep_freed_memory
from spadework.engines.local.model import Model, OpenedModel, open_model
from spadework.engines.local.optimiser import Optimiser
from spadework.engines.local.sampling import Reply, Request, Sampler
from spadework.learning.loss import PolicyLoss

Result = TypeVar("Result")


@dataclass(frozen=True)
class UnchangedWeights:
    """How many of the ``total`` weights are bit for bit what they were at the last count."""

    unchanged: int
    total: int


class LocalEngine:
    """Samples and learns with one model on the CPU; `open` is the way to make one.

    Equal calls give equal bits for an equal number of threads. Dropout is never active. Calls are served one at a time.
    """

    def __init__(self, opened: OpenedModel, engine: EngineConfig, model: ModelConfig, learning: LearningConfig) -> None:
        self._model, self._tokenizer = opened.model, opened.tokenizer
        self._cache_shape = opened.cache_shape
        self._config, self._max_context_tokens = engine, model.max_context_tokens
        self._reference: Model | None = opened.model.frozen_copy() if learning.kl_coefficient > 0 else None
        self._optimiser = Optimiser(
            self._model.parameters(),
            betas=learning.betas,
            weight_decay=learning.weight_decay,
            max_grad_norm=learning.max_grad_norm,
        )
        self._sampler = Sampler(self._model, self._cache_shape)
        self._policy_version, self._weights_epoch = 0, 0
        self._counted = self._copy_weights()
        threads = engine.threads or len(os.sched_getaffinity(0))
        self._worker = ThreadPoolExecutor(1, "engine", initializer=torch.set_num_threads, initargs=(threads,))

    @classmethod
    def open(cls, model_dir: Path, engine: EngineConfig, model: ModelConfig, learning: LearningConfig) -> LocalEngine:
        """Load the model of a directory. Raises ModelUnusable, with a sentence that says why and what to do."""
        keep_freed_memory()
        return cls(open_model(model_dir, model.max_context_tokens), engine, model, learning)

    @property
    def policy_version(self) -> int:
        return self._policy_version

    @property
    def weights_epoch(self) -> int:
        """Changes whenever the weights do, also by `load`; cohorts are bound to it."""
        return self._weights_epoch

    @property
    def max_context_tokens(self) -> int:
        return self._max_context_tokens

    @property
    def vocabulary(self) -> int:
        return self._model.vocabulary

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
            return self._sampler.generate(requests)

        return await self._run(work)

    async def score(self, data: Sequence[Datum], *, reference: bool = False) -> tuple[tuple[float, ...], ...]:
        """See `engines.base.Engine`. Raises ValueError for malformed data or without reference weights."""
        model = self._reference if reference else self._model
        if model is None:
            raise ValueError("there are no reference weights: they are kept only if learning.kl_coefficient is above 0")
        check(data, self._max_context_tokens, self.vocabulary)
        return await self._run(lambda: update.score(model, data, self._config.train_tokens))

    async def forward_backward(self, data: Sequence[Datum], loss: PolicyLoss) -> ForwardBackward:
        """See `engines.base.Engine`. Raises ValueError for malformed data; then nothing was accumulated."""
        check(data, self._max_context_tokens, self.vocabulary)

        def work() -> ForwardBackward:
            self._optimiser.drop_grads()
            found = update.backward(self._model, data, self._config.train_tokens, loss)
            return ForwardBackward(found.loss, found.logprobs, found.clipped_share, self._optimiser.accumulate())

        return await self._run(work)

    async def optim_step(self, learning_rate: float) -> OptimStep:
        """See `engines.base.Engine`. Raises ValueError if no gradient was accumulated."""

        def work() -> OptimStep:
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
            weights = {name: value.detach() for name, value in self._model.parameters().items()}
            checkpoint.write(directory, checkpoint.Saved(weights, self._optimiser.state(), self._policy_version))

        await self._run(work)

    async def load(self, directory: Path) -> None:
        """Continue from what `save` wrote. Raises CheckpointUnusable; then the engine is as it was."""

        def work() -> None:
            saved = checkpoint.read(directory)
            if not self._optimiser.fits(saved.optimiser):
                raise checkpoint.CheckpointUnusable(f"the optimiser state in {directory} is of another model")
            checkpoint.restore_weights(self._model.parameters(), saved.weights, directory)
            self._optimiser.restore(saved.optimiser)
            self._policy_version = saved.policy_version
            self._weights_epoch += 1
            self._counted = self._copy_weights()

        await self._run(work)

    async def export(self, directory: Path) -> None:
        """Write weights, configuration and tokenizer as `from_pretrained` reads them."""

        def work() -> None:
            directory.mkdir(parents=True, exist_ok=True)
            self._model.network.save_pretrained(directory)
            self._tokenizer.save_pretrained(directory)

        await self._run(work)

    async def weight_checksum(self) -> str:
        """A digest of every weight's bits: any change of the weights shows."""

        def work() -> str:
            digest = hashlib.blake2b(digest_size=16)
            for name, parameter in sorted(self._model.parameters().items()):
                digest.update(name.encode())
                digest.update(parameter.detach().contiguous().view(torch.uint8).numpy().data)
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

    def _copy_weights(self) -> dict[str, torch.Tensor]:
        return {name: value.detach().clone() for name, value in self._model.parameters().items()}

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)
