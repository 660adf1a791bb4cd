"""A mean together with how well it is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


class NothingMeasured(Exception):
    """There is no play to measure by. A rate of nothing is not zero."""


@dataclass(frozen=True)
class Estimate:
    """A mean of ``count`` values and its standard error, which is None for a single value."""

    mean: float
    stderr: float | None
    count: int


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and standard error sqrt(s^2 / n), with s^2 the unbiased variance. Raises NothingMeasured for no values."""
    if not values:
        raise NothingMeasured("there is no value to take the mean of")
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean, None, 1)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Estimate(mean, math.sqrt(squares / (count - 1) / count), count)
