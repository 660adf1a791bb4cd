"""The policy update of one iteration: both roles, at least two minibatches, and what was measured on the way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spadework.config import LearningConfig
from spadework.engines.base import Datum, Engine, ForwardBackward, OptimStep, TakesWholeSteps
from spadework.learning.batch import (
    ROLES,
    Role,
    RoleWeights,
    TrainingSample,
    split,
    to_data,
    trained_tokens,
    truncated_importance,
    with_kl_penalty,
)
from spadework.learning.loss import PolicyLoss
from spadework.learning.statistics import logprob_gap

Logprobs = tuple[float, ...]


@dataclass(frozen=True)
class Scores:
    """Log-probabilities before the first step, by sample: of delayed samples or, with a KL penalty, of all of them.

    ``reference`` is of the policy that the run started from; empty without a KL penalty.
    """

    proximal: Mapping[str, Logprobs] = field(default_factory=dict)
    reference: Mapping[str, Logprobs] = field(default_factory=dict)


async def update_policy(
    engine: Engine, samples: Sequence[TrainingSample], config: LearningConfig, run_seed: int, iteration: int
) -> dict[str, float]:
    """Train on ``samples`` and return the metrics under `learning/`; nothing to train skips the step.

    Each minibatch is one optimiser step over both roles, whose gradients are taken one after the other so that the
    norm of each is known, where the engine can tell. Delayed samples are corrected to the policy before the first step.
    """
    weights = RoleWeights(config.agent_weight, config.designer_weight)
    trained = [sample for sample in samples if weights.of(sample.role) > 0]
    readings = _sample_readings(trained)
    if not trained:
        return {**readings, "learning/skipped": 1, "learning/refused_steps": 0}
    scores = await _score(engine, trained, weights, config)
    tally = _Tally()
    loss = PolicyLoss(config.clip_low, config.clip_high)
    for number, minibatch in enumerate(split(trained, config.minibatches, run_seed, iteration)):
        roles = [(role, [sample for sample in minibatch if sample.role == role]) for role in ROLES]
        passes = [(role, members, _data(members, weights, scores, config)) for role, members in roles if members]
        results, step = await _step(engine, [data for _, _, data in passes], loss, config.learning_rate)
        for (role, members, data), result in zip(passes, results, strict=True):
            tally.pass_made(role, members, data, result, is_first=number == 0)
        tally.step_made(step.grad_norm, step.applied)
    readings |= {"learning/skipped": 0, **tally.readings(), **_importance_readings(trained, scores, config.tis_cap)}
    if scores.reference:
        readings["learning/kl"] = _kl(trained, weights, scores)
    return readings


async def _step(
    engine: Engine, passes: Sequence[Sequence[Datum]], loss: PolicyLoss, learning_rate: float
) -> tuple[Sequence[ForwardBackward], OptimStep]:
    if isinstance(engine, TakesWholeSteps):
        return await engine.whole_step(passes, loss, learning_rate)
    results = [await engine.forward_backward(data, loss) for data in passes]
    return results, await engine.optim_step(learning_rate)


async def _score(
    engine: Engine, samples: Sequence[TrainingSample], weights: RoleWeights, config: LearningConfig
) -> Scores:
    has_penalty = config.kl_coefficient > 0
    scored = [sample for sample in samples if sample.delayed or has_penalty]
    if not scored:
        return Scores()
    data = to_data(scored, weights)
    keys = [sample.key for sample in scored]
    proximal = dict(zip(keys, await engine.score(data), strict=True))
    reference = dict(zip(keys, await engine.score(data, reference=True), strict=True)) if has_penalty else {}
    return Scores(proximal, reference)


def _data(
    samples: Sequence[TrainingSample], weights: RoleWeights, scores: Scores, config: LearningConfig
) -> tuple[Datum, ...]:
    data = []
    for sample, datum in zip(samples, to_data(samples, weights), strict=True):
        if sample.delayed:
            datum = truncated_importance(datum, scores.proximal[sample.key], config.tis_cap)
        if scores.reference:
            current, reference = scores.proximal[sample.key], scores.reference[sample.key]
            datum = with_kl_penalty(datum, current, reference, config.kl_coefficient)
        data.append(datum)
    return tuple(data)


class _Tally:
    """Sums over the passes and steps of one update."""

    def __init__(self) -> None:
        self._losses: list[float] = []
        self._norms: dict[Role, list[float]] = {role: [] for role in ROLES}
        self._step_norms: list[float] = []
        self._refused = 0
        self._clipped = 0.0
        self._tokens = 0
        self._loss = 0.0
        self._on_policy: list[tuple[Datum, Logprobs]] = []

    def pass_made(
        self,
        role: Role,
        samples: Sequence[TrainingSample],
        data: Sequence[Datum],
        result: ForwardBackward,
        *,
        is_first: bool,
    ) -> None:
        tokens = trained_tokens(samples)
        self._loss += result.loss
        self._clipped += result.clipped_share * tokens
        self._tokens += tokens
        if result.grad_norm is not None:
            self._norms[role].append(result.grad_norm)
        if is_first:
            rows = zip(samples, data, result.logprobs, strict=True)
            self._on_policy += [(datum, logprobs) for sample, datum, logprobs in rows if not sample.delayed]

    def step_made(self, grad_norm: float | None, applied: bool) -> None:
        self._losses.append(self._loss)
        self._loss = 0.0
        if grad_norm is not None:
            self._step_norms.append(grad_norm)
        self._refused += not applied

    def readings(self) -> dict[str, float]:
        found: dict[str, float] = {
            "learning/loss": _mean(self._losses),
            "learning/clipped_share": self._clipped / self._tokens,
            "learning/refused_steps": self._refused,
        }
        if self._step_norms:
            found["learning/grad_norm"] = _mean(self._step_norms)
        norms = {role: _mean(values) for role, values in self._norms.items() if values}
        total = math.fsum(norms.values())
        for role, norm in norms.items():
            found[f"learning/{role}_grad_norm"] = norm
            if total > 0:
                found[f"learning/{role}_grad_share"] = norm / total
        if self._on_policy:
            gap = logprob_gap([datum for datum, _ in self._on_policy], [logprobs for _, logprobs in self._on_policy])
            found["learning/logprob_mismatch"] = gap.mean_abs
            found["learning/logprob_mismatch_max"] = gap.max_abs
            found["learning/logprob_mismatch_sequence_max"] = gap.sequence_max_abs
            found["learning/ratio"] = gap.ratio_mean
        return found


def _sample_readings(samples: Sequence[TrainingSample]) -> dict[str, float]:
    found: dict[str, float] = {}
    for role in ROLES:
        members = [sample for sample in samples if sample.role == role]
        found[f"learning/{role}_sequences"] = len(members)
        found[f"learning/{role}_tokens"] = trained_tokens(members)
    tokens = trained_tokens(samples)
    if tokens:
        weighted = math.fsum(abs(sample.advantage) * sum(sample.sampled_T) for sample in samples)
        found["learning/mean_abs_advantage"] = weighted / tokens
    return found


def _importance_readings(samples: Sequence[TrainingSample], scores: Scores, cap: float) -> dict[str, float]:
    """How far the policy moved while the designer's samples waited."""
    log_cap = math.log(cap)
    gaps = [
        proximal - sampler
        for sample in samples
        if sample.delayed
        for proximal, sampler, sampled in zip(
            scores.proximal[sample.key], sample.logprobs_T, sample.sampled_T, strict=True
        )
        if sampled
    ]
    if not gaps:
        return {}
    return {
        "learning/tis_weight": _mean([math.exp(min(gap, log_cap)) for gap in gaps]),
        "learning/tis_capped_share": sum(gap >= log_cap for gap in gaps) / len(gaps),
    }


def _kl(samples: Sequence[TrainingSample], weights: RoleWeights, scores: Scores) -> float:
    data = to_data(samples, weights)
    current = [scores.proximal[sample.key] for sample in samples]
    return logprob_gap(data, [scores.reference[sample.key] for sample in samples], current).kl


def _mean(values: Sequence[float]) -> float:
    # Not fsum: it raises where an infinite value must be shown.
    return sum(values) / len(values)
