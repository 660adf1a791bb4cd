"""The local engine with a vLLM server as its sampler: training, scoring and files stay here.

Before the first reply after every change of the weights the server is given their adapter, and has to prove that it
samples from it (`adapters`). Two equal runs are equal in distribution only: the server forms its own batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spadework.config import Config
from spadework.engines.base import Datum, ForwardBackward, OptimStep
from spadework.engines.local.engine import LocalEngine, UnchangedWeights
from spadework.engines.vllm.adapters import Adapters
from spadework.engines.vllm.cohort import VllmCohort
from spadework.engines.vllm.server import Server
from spadework.learning.loss import PolicyLoss


class VllmEngine:
    """Learns as ``local`` does and samples at ``server``."""

    def __init__(self, config: Config, local: LocalEngine, server: Server) -> None:
        """Raises EngineFault if nothing can be written where `engine.vllm.adapter_dir` says."""
        self._concurrency = config.engine.vllm.concurrency
        self._local, self._server = local, server
        self._adapters = Adapters(config, local, server)

    @property
    def policy_version(self) -> int:
        return self._local.policy_version

    def cohort(self, size: int) -> VllmCohort:
        """See `engines.base.Engine`. The cohort is bound to the present weights and stale after any change of them."""
        return VllmCohort(self._local, self._server, self._adapters, size, self._concurrency)

    async def score(self, data: Sequence[Datum], *, reference: bool = False) -> tuple[tuple[float, ...], ...]:
        return await self._local.score(data, reference=reference)

    async def forward_backward(self, data: Sequence[Datum], loss: PolicyLoss) -> ForwardBackward:
        return await self._local.forward_backward(data, loss)

    async def optim_step(self, learning_rate: float) -> OptimStep:
        return await self._local.optim_step(learning_rate)

    async def save(self, directory: Path) -> None:
        await self._local.save(directory)

    async def load(self, directory: Path) -> None:
        await self._local.load(directory)

    async def export(self, directory: Path) -> None:
        await self._local.export(directory)

    async def weight_checksum(self) -> str:
        return await self._local.weight_checksum()

    async def count_unchanged_weights(self) -> UnchangedWeights:
        return await self._local.count_unchanged_weights()
