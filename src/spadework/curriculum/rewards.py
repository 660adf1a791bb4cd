"""What the designer earns for an environment: the blend of the paper, and its alternatives.

Every reward is a pure function of what was measured of the environment over its window, the iterations from its design
to the next round. Rewards are neither centred nor scaled here; advantages are the business of `learning`. To add one,
write a function of the same shape, give it a line in `REWARDS` and a name in `DesignerRewardConfig.kind`.

An environment whose plays all failed has no reward, and `NothingMeasured` is raised: whether that is the designer's
fault is told by the episodes' outcomes, and what an invalid attempt earns by the configuration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from spadework.config import DesignerRewardConfig
from spadework.curriculum.averages import SkillAverages
from spadework.curriculum.estimates import Estimate, NothingMeasured, estimate

TARGET_VARIANCE = 0.25
"""Largest variance of returns of 0 and 1: half of the plays succeed."""
VARIANCE_WIDTH = 0.01


@dataclass(frozen=True)
class Window:
    """What was measured of an environment. Returns are in [-1, 1] and belong to the seed they were played on.

    ``plain`` holds one mapping per iteration of the window, in order; one without plays is empty. ``hinted`` is of the
    first iteration. Only episodes with a return are in.
    """

    skill: str
    plain: tuple[Mapping[int, float], ...]
    hinted: Mapping[int, float]


@dataclass(frozen=True)
class Reward:
    """The reward and what it was made from. ``regret`` is None where the arms have no seed in common."""

    value: float
    win_rate: Estimate
    regret: Estimate | None


def designer_reward(config: DesignerRewardConfig, window: Window, averages: SkillAverages) -> Reward:
    """The reward that ``config.kind`` names. ``averages`` are those before the round of the environment was added.

    Raises NothingMeasured if the plays that it needs are missing.
    """
    value = REWARDS[config.kind](config, window, averages)
    return Reward(value, win_rate(window), hint_regret(window) if _matched(window) else None)


def plays(window: Window) -> list[float]:
    """All plain returns of the window."""
    return [value for iteration in window.plain for value in iteration.values()]


def win_rate(window: Window) -> Estimate:
    """Share of the window's plain plays with a positive return. Raises NothingMeasured without plays."""
    return estimate([float(value > 0) for value in plays(window)])


def hint_regret(window: Window) -> Estimate:
    """Mean over the seeds that both arms played in the first iteration of hinted minus plain return.

    The standard error is that of the differences by seed. Raises NothingMeasured without a common seed.
    """
    if not _matched(window):
        raise NothingMeasured("no seed was played in both arms of the window's first iteration")
    return estimate([window.hinted[seed] - window.plain[0][seed] for seed in _matched(window)])


def plateau(rate: float, low: float, high: float, ramp: float) -> float:
    """1 on [low, high], falling linearly to 0 over ``ramp`` on either side (paper: 0.4, 0.6, 0.25)."""
    return max(0.0, 1.0 - max(low - rate, rate - high, 0.0) / ramp)


def blend(config: DesignerRewardConfig, window: Window, averages: SkillAverages) -> float:
    """w_plateau * plateau(win rate) + w_regret * clip(regret / scale, 0, 1) (paper: 0.6, 0.4 and 0.15); in [0, 1].

    The win rate takes all plain plays of the window, the regret the matched first iteration.
    """
    gap = min(1.0, max(0.0, hint_regret(window).mean / config.regret_scale))
    return config.plateau_weight * solve_rate(config, window, averages) + config.regret_weight * gap


def regret(config: DesignerRewardConfig, window: Window, averages: SkillAverages) -> float:
    """max(0, regret): the paper's hint regret alone, floored; in [0, 2]."""
    return max(0.0, hint_regret(window).mean)


def solve_rate(config: DesignerRewardConfig, window: Window, averages: SkillAverages) -> float:
    """plateau(win rate): the paper's ablation without regret; in [0, 1]."""
    return plateau(win_rate(window).mean, config.plateau_low, config.plateau_high, config.plateau_ramp)


def learning_potential(config: DesignerRewardConfig, window: Window, averages: SkillAverages) -> float:
    """|fast - slow| / (2 (fast rate - slow rate)) of the skill's averages after adding this environment's mean return.

    Kanitscheider et al. 2021 (arXiv 2106.14876). With equal averages b before, it is |mean - b| / 2: an unsigned
    distance from what the skill usually gives. The first round of a skill has no averages and earns 0.
    """
    mean = estimate(plays(window)).mean
    before = averages.of(window.skill, mean)
    after = before.after(mean, config.fast_rate, config.slow_rate)
    return after.potential(config.fast_rate, config.slow_rate)


def learning_progress(config: DesignerRewardConfig, window: Window, averages: SkillAverages) -> float:
    """Rise of the mean plain return over the window: weighted least-squares slope times (iterations - 1).

    An iteration weighs as much as it has plays, the inverse variance of its mean up to a factor. Signed: forgetting
    counts against. Raises NothingMeasured unless two iterations have plays.
    """
    points = [(time, sum(r.values()) / len(r), len(r)) for time, r in enumerate(window.plain) if r]
    if len(points) < 2:
        raise NothingMeasured("learning progress needs plays in two iterations of the window; raise round_iterations")
    total = sum(weight for _, _, weight in points)
    middle = sum(weight * time for time, _, weight in points) / total
    mean = sum(weight * value for _, value, weight in points) / total
    rise = sum(weight * (time - middle) * (value - mean) for time, value, weight in points)
    slope = rise / sum(weight * (time - middle) ** 2 for time, _, weight in points)
    return slope * (len(window.plain) - 1)


def variance(config: DesignerRewardConfig, window: Window, averages: SkillAverages) -> float:
    """exp(-(Var - 0.25)^2 / (2 * 0.01)) with the population variance of all plain returns; in (0, 1].

    The reference implementation's bonus for a spread of returns; 1 where half of the plays earn 1 and half 0.
    """
    returns = plays(window)
    mean = estimate(returns).mean
    spread = math.fsum((value - mean) ** 2 for value in returns) / len(returns)
    return math.exp(-((spread - TARGET_VARIANCE) ** 2) / (2.0 * VARIANCE_WIDTH))


RewardFunction = Callable[[DesignerRewardConfig, Window, SkillAverages], float]
REWARDS: Mapping[str, RewardFunction] = MappingProxyType(
    {
        "blend": blend,
        "regret": regret,
        "solve-rate": solve_rate,
        "learning-potential": learning_potential,
        "learning-progress": learning_progress,
        "variance": variance,
    }
)


def updated_averages(config: DesignerRewardConfig, windows: list[Window], averages: SkillAverages) -> SkillAverages:
    """The averages after a round whose environments were measured by ``windows``; those without plays add nothing.

    One value per skill is added: the mean over its environments of their mean plain returns.
    """
    by_skill: dict[str, list[float]] = {}
    for window in windows:
        if returns := plays(window):
            by_skill.setdefault(window.skill, []).append(estimate(returns).mean)
    means = {skill: estimate(values).mean for skill, values in by_skill.items()}
    return averages.after(means, config.fast_rate, config.slow_rate)


def _matched(window: Window) -> list[int]:
    return sorted(window.plain[0].keys() & window.hinted.keys()) if window.plain else []
