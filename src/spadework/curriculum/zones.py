"""Where an environment lies for the agent of today, from its two arms.

With p the mean plain return, h the mean hinted return and gap = h - p:

- `frontier` if p lies in [LOW, HIGH]: the agent sometimes succeeds, so there is something to learn from its own plays;
- otherwise `frontier` if p < LOW and the hint opens the environment: gap >= GAP and gap > Z * its standard error;
- otherwise `mastered` if p > HIGH, whatever the hint adds: little is left to gain;
- otherwise `unsolvable`: p < LOW, and the hint does not help beyond noise.

LOW and HIGH are where the default plateau of the designer's reward reaches zero, GAP is its default scale of regret.
The paper names the zones by the gap alone; but a useless hint to an environment that is won half of the time does not
make it mastered or unsolvable.
"""

from __future__ import annotations

import math
from enum import StrEnum

from spadework.curriculum.estimates import Estimate
from spadework.store.records import Standing

LOW = 0.15
HIGH = 0.85
GAP = 0.15
Z = 1.0


class Zone(StrEnum):
    MASTERED = "mastered"
    FRONTIER = "frontier"
    UNSOLVABLE = "unsolvable"


def zone(plain: Estimate, hinted: Estimate | None) -> Zone:
    """The zone of an environment; ``hinted`` None: the hinted arm was not played.

    An unknown standard error (a single play) counts as 1, half the range of returns: one lucky play shows nothing.
    """
    if plain.mean > HIGH:
        return Zone.MASTERED
    if plain.mean >= LOW:
        return Zone.FRONTIER
    if hinted is None:
        return Zone.UNSOLVABLE
    gap = hinted.mean - plain.mean
    noise = math.hypot(*(1.0 if arm.stderr is None else arm.stderr for arm in (plain, hinted)))
    return Zone.FRONTIER if gap >= GAP and gap > Z * noise else Zone.UNSOLVABLE


def zone_of(standing: Standing) -> Zone | None:
    """The zone by everything measured so far; None if no plain play has a return."""
    if standing.plain_mean is None:
        return None
    plain = Estimate(standing.plain_mean, standing.plain_stderr, standing.plain_plays)
    if standing.hinted_mean is None:
        return zone(plain, None)
    return zone(plain, Estimate(standing.hinted_mean, standing.hinted_stderr, standing.hinted_plays))
