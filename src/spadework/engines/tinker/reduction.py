"""Our loss, a weighted sum over tokens, in the terms of a service. Pure arithmetic.

    ours      sum over tokens of -w * min(r * A, clip(r) * A)
    sum       sum over tokens of     -min(r * A', clip(r) * A')
    mean      mean over sequences of the mean over a sequence's trained tokens of the same

The surrogate grows in proportion to A, so a weight w > 0 can be folded into it: A' = w * A for a sum. For the mean of
means, A' = w * A * n * m with n sequences in the whole step and m trained tokens in the sequence: both means cancel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from spadework.engines.base import Datum, ForwardBackward
from spadework.engines.tinker.service import Clip, Example, Logprobs
from spadework.learning.loss import PolicyLoss

MAX_LOG_RATIO = 20.0
"""Where the reported loss cuts log-ratios, as the local engine does."""


def clip_of(loss: PolicyLoss) -> Clip:
    return Clip(1.0 - loss.clip_low, 1.0 + loss.clip_high)


def check_services(data: Sequence[Datum]) -> None:
    """Raises ValueError, naming the datum, for what no service of the Tinker API can train on."""
    for number, datum in enumerate(data):
        if datum.temperature != 1:
            raise ValueError(
                f"datum {number} was sampled at temperature {datum.temperature:g}; the Tinker API scores at 1 only"
            )
        if min(datum.weights_T) < 0:
            raise ValueError(f"datum {number} has a negative weight")
        # Services take such numbers without a word and their weights are lost.
        if not all(map(math.isfinite, (*datum.weights_T, *datum.logprobs_T, *datum.advantages_T))):
            raise ValueError(f"datum {number} has a weight, log-probability or advantage that is not finite")


def examples_of(data: Sequence[Datum], reduction: Literal["sum", "mean of means"], sequences: int) -> list[Example]:
    """``data`` for a step that has ``sequences`` of them in all, so that the service's reduction gives our sum."""
    return [_example(datum, reduction, sequences) for datum in data]


def _example(datum: Datum, reduction: Literal["sum", "mean of means"], sequences: int) -> Example:
    weights_T = datum.weights_T
    trained = sum(weight != 0 for weight in weights_T)
    scale = 1.0 if reduction == "sum" else float(sequences * trained)
    return Example(
        inputs_I=datum.token_ids_T[:-1],
        targets_I=datum.token_ids_T[1:],
        mask_I=tuple(1.0 if weight else 0.0 for weight in weights_T[1:]),
        logprobs_I=_where(weights_T, datum.logprobs_T),
        advantages_I=_where(weights_T, [w * a * scale for w, a in zip(weights_T, datum.advantages_T, strict=True)]),
    )


def _where(weights_T: Sequence[float], values_T: Sequence[float]) -> tuple[float, ...]:
    pairs = zip(weights_T[1:], values_T[1:], strict=True)
    return tuple(value if weight else 0.0 for weight, value in pairs)


def rows_of(data: Sequence[Datum], logprobs: Sequence[Logprobs]) -> tuple[tuple[float, ...], ...]:
    """What a service said of the targets, per token of ``data`` (0 where the weight is 0).

    Raises ValueError if the service said too little or too much.
    """
    if [len(row) for row in logprobs] != [len(datum.token_ids_T) - 1 for datum in data]:
        raise ValueError("the service gave log-probabilities for other tokens than it was asked about")
    return tuple((0.0, *_where(datum.weights_T, (0.0, *row))) for datum, row in zip(data, logprobs, strict=True))


def measured(data: Sequence[Datum], rows: Sequence[Sequence[float]], loss: PolicyLoss) -> ForwardBackward:
    """Loss and clipped share, from log-probabilities alone; no service tells a pass's gradient norm."""
    trained = np.concatenate([np.asarray(datum.weights_T) != 0 for datum in data])

    def of(values: Iterable[Sequence[float]]) -> npt.NDArray[np.float64]:
        joined: npt.NDArray[np.float64] = np.concatenate([np.asarray(row, dtype=np.float64) for row in values])
        kept: npt.NDArray[np.float64] = joined[trained]
        return kept

    clip = clip_of(loss)
    weights, advantages = of(datum.weights_T for datum in data), of(datum.advantages_T for datum in data)
    log_ratio = of(rows) - of(datum.logprobs_T for datum in data)
    ratio = np.exp(np.clip(log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO))
    gain = np.minimum(ratio * advantages, np.clip(ratio, clip.low_threshold, clip.high_threshold) * advantages)
    clipped = ((advantages > 0) & (ratio > clip.high_threshold)) | ((advantages < 0) & (ratio < clip.low_threshold))
    return ForwardBackward(
        loss=float(-(weights * gain).sum()),
        logprobs=tuple(tuple(row) for row in rows),
        clipped_share=float(clipped.mean()),
        grad_norm=None,
    )
