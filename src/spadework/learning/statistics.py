"""How far two policies' log-probabilities of the same tokens are apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spadework.engines.base import Datum

MAX_LOG_RATIO = 20.0
"""Log-ratios are cut to ±20 before they are exponentiated, so that one wild token cannot make a metric infinite."""


@dataclass(frozen=True)
class LogprobGap:
    """Differences new - old over all trained tokens, in nats.

    ``ratio_mean`` is the mean of exp(new - old): 1 within rounding on the first on-policy step. ``sequence_max_abs`` is
    the largest absolute *sum* over one sequence: long replies add up small differences. ``kl`` is the estimate of
    KL(old || new) from the old policy's tokens with the least variance, mean of ratio - 1 - log ratio (Schulman 2020).
    """

    tokens: int
    mean_abs: float
    max_abs: float
    sequence_max_abs: float
    ratio_mean: float
    kl: float


def logprob_gap(
    data: Sequence[Datum], new: Sequence[Sequence[float]], old: Sequence[Sequence[float]] | None = None
) -> LogprobGap:
    """Compare ``new`` with ``old`` (by default the data's own log-probabilities) where the weights are not 0.

    ``new`` is `ForwardBackward.logprobs` or the result of `Engine.score`. Raises ValueError if nothing is trained.
    """
    old = [datum.logprobs_T for datum in data] if old is None else old
    by_sequence: list[list[float]] = []
    for datum, new_T, old_T in zip(data, new, old, strict=True):
        rows = zip(new_T, old_T, datum.weights_T, strict=True)
        by_sequence.append([after - before for after, before, weight in rows if weight])
    gaps = [gap for sequence in by_sequence for gap in sequence]
    if not gaps:
        raise ValueError("no trained tokens to compare")
    cut = [max(-MAX_LOG_RATIO, min(MAX_LOG_RATIO, gap)) for gap in gaps]
    return LogprobGap(
        tokens=len(gaps),
        mean_abs=math.fsum(map(abs, gaps)) / len(gaps),
        max_abs=max(map(abs, gaps)),
        sequence_max_abs=max(abs(math.fsum(sequence)) for sequence in by_sequence),
        ratio_mean=math.fsum(map(math.exp, cut)) / len(gaps),
        kl=math.fsum(math.expm1(gap) - gap for gap in cut) / len(gaps),
    )
