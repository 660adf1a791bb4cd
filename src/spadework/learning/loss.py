"""Settings of the clipped policy gradient (paper, section on optimisation)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PolicyLoss:
    """The ratio of new to old probability is clipped to [1 - clip_low, 1 + clip_high].

    The upper side is wider, which keeps exploration.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
