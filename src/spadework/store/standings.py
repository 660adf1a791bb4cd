"""Pooling the measures of an environment over iterations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spadework.roles.episode import Arm
from spadework.store.records import Measure, Standing


@dataclass(frozen=True)
class Pooled:
    """Several groups of plays taken as one. ``mean`` and ``stderr`` as in `Measure`."""

    plays: int
    wins: int
    mean: float | None
    stderr: float | None


def pool(measures: Sequence[Measure]) -> Pooled:
    """The measure that all the plays together would have given.

    The sum of squares of a group of n plays follows from its mean m and standard error s:
    n (n - 1) s^2 + n m^2. Exact, up to rounding.
    """
    groups = [(m.plays, m.mean_return, m.stderr or 0.0) for m in measures if m.mean_return is not None]
    plays = sum(n for n, _, _ in groups)
    wins = sum(m.wins for m in measures)
    if plays == 0:
        return Pooled(0, wins, None, None)
    mean = sum(n * m for n, m, _ in groups) / plays
    if plays == 1:
        return Pooled(plays, wins, mean, None)
    squares = sum(n * (n - 1) * s * s + n * (m - mean) ** 2 for n, m, s in groups)
    return Pooled(plays, wins, mean, math.sqrt(squares / (plays - 1) / plays))


def standing(environment_id: str, round_: int, class_name: str, measures: Sequence[Measure]) -> Standing:
    """Where an environment stands by ``measures``, at most one per iteration and arm."""
    plain = [m for m in measures if m.arm is Arm.PLAIN]
    hinted = [m for m in measures if m.arm is Arm.HINTED]
    measured = {m.iteration for m in hinted if m.plays}
    all_plain, all_hinted = pool(plain), pool(hinted)
    matched = pool([m for m in plain if m.iteration in measured])
    regret = None if all_hinted.mean is None or matched.mean is None else all_hinted.mean - matched.mean
    return Standing(
        environment_id=environment_id,
        round=round_,
        class_name=class_name,
        plain_plays=all_plain.plays,
        plain_wins=all_plain.wins,
        plain_mean=all_plain.mean,
        plain_stderr=all_plain.stderr,
        hinted_plays=all_hinted.plays,
        hinted_wins=all_hinted.wins,
        hinted_mean=all_hinted.mean,
        hinted_stderr=all_hinted.stderr,
        regret=regret,
        regret_stderr=None if regret is None else _difference(all_hinted.stderr, matched.stderr),
    )


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else math.hypot(one, other)
