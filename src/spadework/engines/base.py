"""What the loop needs of an engine: the four verbs of the Tinker API.

The loop never learns which engine it has. Everything that crosses this boundary is token ids and numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from spadework.learning.loss import PolicyLoss


class StopReason(StrEnum):
    STOP = "stop"
    """A stop token was sampled; it is the last of the sample's tokens."""
    LENGTH = "length"
    """The token budget ended first: the reply is cut."""


@dataclass(frozen=True)
class SamplingParams:
    """How to sample one reply. ``seed`` names every draw of it; temperature 1 is the policy itself."""

    max_tokens: int
    stop_ids: tuple[int, ...]
    seed: int
    temperature: float = 1.0


@dataclass(frozen=True)
class Sample:
    """One reply: ``token_ids_T`` and the log-probability of each at the sampling temperature."""

    token_ids_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    stop_reason: StopReason
    policy_version: int


@dataclass(frozen=True)
class Datum:
    """One sequence to train on.

    Position t of each array belongs to ``token_ids_T[t]``. ``weights_T`` says how much the token counts in the
    sum that is the loss (0: not sampled by the model); role weights and means are folded into it.
    ``advantages_T`` and ``logprobs_T`` (of the policy that the ratio is taken against) are 0 where the weight is 0.
    ``temperature`` is the one it was sampled at, so that both sides score the same distribution.
    """

    token_ids_T: tuple[int, ...]
    weights_T: tuple[float, ...]
    logprobs_T: tuple[float, ...]
    advantages_T: tuple[float, ...]
    temperature: float = 1.0


@dataclass(frozen=True)
class ForwardBackward:
    """What one forward-backward pass measured.

    ``logprobs`` holds, per datum, the current policy's log-probability of each token (0 where the weight is 0).
    ``clipped_share`` is the share of weighted tokens whose gradient the clip removed. ``grad_norm`` is the norm of
    this call's gradient alone, or None if the engine cannot tell it apart.
    """

    loss: float
    logprobs: tuple[tuple[float, ...], ...]
    clipped_share: float
    grad_norm: float | None


@dataclass(frozen=True)
class OptimStep:
    """``applied`` is False if the gradient was not finite: the step was refused and the weights stayed.

    ``grad_norm`` is the norm before the clip, or None if the engine is not told.
    """

    grad_norm: float | None
    applied: bool
    policy_version: int


class Engine(Protocol):
    """Samples from and updates one set of weights.

    ``policy_version`` counts the optimiser steps applied to the weights that sample.
    """

    @property
    def policy_version(self) -> int: ...

    def cohort(self, size: int) -> AbstractAsyncContextManager[Cohort]:
        """Announce ``size`` concurrent requesters (episodes, or attempts of a round).

        The local engine samples when every live member of the cohort waits for a reply, in member order, so that
        the composition of a batch never depends on timing. A remote engine may ignore the announcement.
        """
        ...

    async def score(self, data: Sequence[Datum], *, reference: bool = False) -> tuple[tuple[float, ...], ...]:
        """Per datum, the log-probability of each token at its temperature (0 where the weight is 0).

        ``reference`` scores with the weights that the run started from instead of the current ones.
        """
        ...

    async def forward_backward(self, data: Sequence[Datum], loss: PolicyLoss) -> ForwardBackward:
        """Accumulate the gradient of ``loss`` over ``data``."""
        ...

    async def optim_step(self, learning_rate: float) -> OptimStep:
        """Apply and clear the accumulated gradient; refuse it if it is not finite."""
        ...

    async def save(self, directory: Path) -> None:
        """Write weights and optimiser; everything that `load` needs to continue bit for bit."""
        ...

    async def load(self, directory: Path) -> None: ...

    async def export(self, directory: Path) -> None:
        """Write weights and tokenizer so that `from_pretrained` loads them; of an adapter, it and the tokenizer."""
        ...


@runtime_checkable
class TakesWholeSteps(Protocol):
    """An engine that must know a whole step before its first pass: it is given all passes and the step at once.

    A service that is far away is then asked once, and one that averages over sequences is told the right weights.
    """

    async def whole_step(
        self, passes: Sequence[Sequence[Datum]], loss: PolicyLoss, learning_rate: float
    ) -> tuple[tuple[ForwardBackward, ...], OptimStep]:
        """As `forward_backward` of every pass and then `optim_step`."""
        ...


class Cohort(Protocol):
    """A set of requesters that are sampled together; member numbers run from 0 to size - 1."""

    async def sample(self, member: int, prompt_ids: Sequence[int], params: SamplingParams) -> Sample:
        """Sample one reply. The member's earlier prompt and reply may be a prefix of ``prompt_ids``; the
        local engine then computes only the new tokens, and what several members' prompts begin with only once.

        Raises ContextTooLong if the prompt leaves no room for ``max_tokens``.
        """
        ...

    def leave(self, member: int) -> None:
        """The member will ask for nothing more. Every member must leave, whatever happened to it."""
        ...


class ContextTooLong(ValueError):
    """The prompt and the reply's budget do not fit the model's context."""


class StaleCohort(RuntimeError):
    """The weights changed while the cohort was open: it belongs to a policy that is gone."""


class EngineFault(Exception):
    """What the engine needs is not there, or refuses; the message says what and what to do."""
