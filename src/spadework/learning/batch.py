"""From samples to what an engine trains on: minibatches, token weights, importance weights, KL.

Everything is folded into a datum's weights and advantages, so that every engine's loss is one plain sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spadework.engines.base import Datum
from spadework.seeding import generator

Role = Literal["agent", "designer"]
ROLES: tuple[Role, ...] = ("agent", "designer")


@dataclass(frozen=True)
class TrainingSample:
    """One sequence with its advantage.

    ``sampled_T`` marks the tokens that the model sampled, ``logprobs_T`` has the sampler's log-probability of each (0
    elsewhere) at ``temperature``. ``key`` is unique within an iteration. ``delayed`` says that an earlier policy
    sampled it.
    """

    token_ids_T: tuple[int, ...]
    sampled_T: tuple[bool, ...]
    logprobs_T: tuple[float, ...]
    advantage: float
    role: Role
    temperature: float
    key: str
    delayed: bool = False

    def __post_init__(self) -> None:
        if not len(self.token_ids_T) == len(self.sampled_T) == len(self.logprobs_T):
            raise ValueError(f"sample {self.key}: tokens, marks and log-probabilities differ in length")
        if not any(self.sampled_T) or self.sampled_T[0]:
            raise ValueError(f"sample {self.key}: some token, but not the first, must have been sampled")
        if not math.isfinite(self.advantage):
            raise ValueError(f"sample {self.key}: the advantage is {self.advantage}")


@dataclass(frozen=True)
class RoleWeights:
    """How much each role's mean token counts in the loss of a minibatch. 0 leaves a role out."""

    agent: float = 1.0
    designer: float = 1.0

    def of(self, role: Role) -> float:
        return self.agent if role == "agent" else self.designer


def trained_tokens(samples: Sequence[TrainingSample]) -> int:
    """How many tokens are trained: those that the model sampled, no more and no fewer."""
    return sum(sum(sample.sampled_T) for sample in samples)


def split(
    samples: Sequence[TrainingSample], count: int, run_seed: int, iteration: int
) -> tuple[tuple[TrainingSample, ...], ...]:
    """Deal the samples to ``count`` minibatches, shuffled, every role evenly.

    The order depends on the keys, the run seed and the iteration, not on the order of ``samples``. No minibatch is
    empty: with fewer samples than ``count`` there are fewer minibatches (none for no samples). Sizes differ by at most
    one, in all and per role. Raises ValueError for a key that occurs twice.
    """
    if count < 1:
        raise ValueError(f"{count} minibatches; at least one is needed")
    if len({sample.key for sample in samples}) < len(samples):
        raise ValueError("two samples of one iteration have the same key")
    batches: list[list[TrainingSample]] = [[] for _ in range(min(count, len(samples)))]
    dealt = 0
    for role in ROLES:
        members = sorted((sample for sample in samples if sample.role == role), key=lambda sample: sample.key)
        order = generator(run_seed, "minibatches", role, iteration).permutation(len(members))
        for index in order:
            batches[dealt % len(batches)].append(members[index])
            dealt += 1
    return tuple(tuple(batch) for batch in batches)


def to_data(minibatch: Sequence[TrainingSample], weights: RoleWeights) -> tuple[Datum, ...]:
    """One datum per sample whose role has a weight, in order.

    A token of a role weighs (role weight) / (the role's sampled tokens in the minibatch), so the summed loss is, per
    role, the role weight times the mean over its tokens: long and short samples are not averaged first, and neither
    role's size changes the other's share.
    """
    tokens = {role: trained_tokens([sample for sample in minibatch if sample.role == role]) for role in ROLES}
    return tuple(
        _datum(sample, weights.of(sample.role) / tokens[sample.role])
        for sample in minibatch
        if weights.of(sample.role) > 0
    )


def _datum(sample: TrainingSample, weight: float) -> Datum:
    return Datum(
        token_ids_T=sample.token_ids_T,
        weights_T=tuple(weight if sampled else 0.0 for sampled in sample.sampled_T),
        logprobs_T=tuple(
            logprob if sampled else 0.0 for logprob, sampled in zip(sample.logprobs_T, sample.sampled_T, strict=True)
        ),
        advantages_T=tuple(sample.advantage if sampled else 0.0 for sampled in sample.sampled_T),
        temperature=sample.temperature,
    )


def truncated_importance(datum: Datum, proximal_T: Sequence[float], cap: float) -> Datum:
    """Make a delayed sample's datum one of the present policy (Ionides 2008; decoupled: Hilton et al. 2022).

    ``proximal_T`` are the log-probabilities of the policy before this iteration's update (`Engine.score`). Each token's
    advantage is multiplied by min(exp(proximal - sampler), cap), and the clipped ratio is taken against the proximal
    policy from then on: otherwise the clip would act on the delay instead of on the update.
    """
    _same_length(datum, proximal_T)
    log_cap = math.log(cap)
    advantages = (
        advantage * math.exp(min(proximal - sampler, log_cap)) if weight else 0.0
        for advantage, proximal, sampler, weight in zip(
            datum.advantages_T, proximal_T, datum.logprobs_T, datum.weights_T, strict=True
        )
    )
    return replace(datum, advantages_T=tuple(advantages), logprobs_T=tuple(proximal_T))


def with_kl_penalty(
    datum: Datum, current_T: Sequence[float], reference_T: Sequence[float], coefficient: float
) -> Datum:
    """Subtract coefficient * (current - reference) from every trained token's advantage.

    Its expectation over the policy's own tokens is the gradient of the KL divergence to the reference policy, which is
    the one that the run started from (`Engine.score` with ``reference``).
    """
    _same_length(datum, current_T)
    _same_length(datum, reference_T)
    advantages = (
        advantage - coefficient * (current - reference) if weight else 0.0
        for advantage, current, reference, weight in zip(
            datum.advantages_T, current_T, reference_T, datum.weights_T, strict=True
        )
    )
    return replace(datum, advantages_T=tuple(advantages))


def _same_length(datum: Datum, values_T: Sequence[float]) -> None:
    if len(values_T) != len(datum.token_ids_T):
        raise ValueError(f"{len(values_T)} log-probabilities for a datum of {len(datum.token_ids_T)} tokens")
