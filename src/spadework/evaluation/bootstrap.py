"""Bootstrap intervals over items (Efron 1979): of a rate, and of the difference of two rates on the same items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spadework.seeding import generator

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % percentile interval, all in the units of what was given."""

    mean: float
    low: float
    high: float


def bootstrap(values: Sequence[float], samples: int, seed: int) -> Interval:
    """Mean of ``values`` and its interval over ``samples`` resamples. Raises ValueError if there are none."""
    if not values:
        raise ValueError("a mean of nothing has no interval")
    array_N = np.asarray(values, dtype=np.float64)
    rng = generator(seed, "bootstrap", len(array_N), samples)
    means_S = array_N[rng.integers(len(array_N), size=(samples, len(array_N)))].mean(axis=1)
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(means_S, [tail, 100 - tail])
    return Interval(float(array_N.mean()), float(low), float(high))


def paired_bootstrap(before: Sequence[float], after: Sequence[float], samples: int, seed: int) -> Interval:
    """Mean of ``after - before`` item by item, with its interval; item i is the same question in both.

    Raises ValueError if the two differ in length.
    """
    if len(before) != len(after):
        raise ValueError(f"{len(before)} items before and {len(after)} after cannot be paired")
    return bootstrap([late - early for early, late in zip(before, after, strict=True)], samples, seed)
