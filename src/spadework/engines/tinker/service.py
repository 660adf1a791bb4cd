"""What the engine asks of a service, in plain data. `sdk.TinkerService` asks a real one; tests ask one made of NumPy.

Calls that must reach the service in order are submitted by the call itself, and answered when the result is awaited.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Example:
    """One sequence as services train it: position i sees ``inputs_I[: i + 1]`` and predicts ``targets_I[i]``.

    ``mask_I`` is 1 where the prediction is trained and else 0; ``advantages_I`` and ``logprobs_I`` (of the policy that
    the ratio is taken against) are 0 there.
    """

    inputs_I: tuple[int, ...]
    targets_I: tuple[int, ...]
    mask_I: tuple[float, ...]
    logprobs_I: tuple[float, ...]
    advantages_I: tuple[float, ...]


@dataclass(frozen=True)
class Clip:
    """Bounds of the ratio itself, not distances from 1."""

    low_threshold: float
    high_threshold: float


@dataclass(frozen=True)
class Adam:
    """One step of AdamW; ``max_grad_norm`` 0 asks for no clip."""

    learning_rate: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    max_grad_norm: float


@dataclass(frozen=True)
class Reply:
    """``stopped`` is what the service says; the engine looks for itself."""

    token_ids_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    stopped: bool


Logprobs = tuple[float, ...]
"""Of one example's targets."""


class Sampler(Protocol):
    """Samples from the weights that a trainer had when it made the sampler, as long as it made no newer one."""

    async def sample(
        self, prompt_ids: Sequence[int], max_tokens: int, stop_ids: Sequence[int], seed: int, temperature: float
    ) -> Reply:
        """One reply; ``seed`` is in [0, 2^31)."""
        ...


class Trainer(Protocol):
    """One set of trained weights at the service, with its optimiser."""

    def forward(self, examples: Sequence[Example]) -> Awaitable[list[Logprobs]]:
        """Log-probabilities of the targets; nothing is accumulated."""
        ...

    def forward_backward(self, examples: Sequence[Example], clip: Clip) -> Awaitable[list[Logprobs]]:
        """Accumulate the gradient of the clipped surrogate in the service's own reduction."""
        ...

    def step(self, adam: Adam) -> Awaitable[float | None]:
        """Apply and clear the accumulated gradient; its norm, if the service tells."""
        ...

    async def sampler(self) -> Sampler:
        """Give the present weights to the sampling side. Earlier samplers of this trainer are void from then on."""
        ...

    async def save_state(self, name: str) -> str:
        """Keep weights and optimiser at the service, for good; the path to open them with. Names are used once."""
        ...

    async def save_weights(self, name: str) -> str:
        """Keep the weights alone, for `Service.download`."""
        ...


class Service(Protocol):
    """A server that holds base models and trains adapters of them. Every call may raise EngineFault."""

    def models(self) -> tuple[str, ...]:
        """Names of its base models; blocks until the server has answered."""
        ...

    async def create(self, base_model: str, rank: int, seed: int) -> Trainer:
        """A new adapter that changes nothing yet."""
        ...

    async def open_state(self, path: str) -> Trainer:
        """Weights and optimiser as `Trainer.save_state` kept them, in a slot of their own."""
        ...

    async def base_logprobs(self, base_model: str, token_ids_T: Sequence[int]) -> tuple[float | None, ...]:
        """The base model's log-probability of each token: T entries of which the first is None, or T - 1."""
        ...

    async def download(self, path: str, archive: Path) -> None:
        """Write what `Trainer.save_weights` kept at ``path`` into the file ``archive``, a tar."""
        ...

    async def delete(self, path: str) -> None:
        """Forget a kept state."""
        ...
