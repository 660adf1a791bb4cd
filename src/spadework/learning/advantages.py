"""Advantages: how much better a play or a program was than its group.

Groups are formed by identity, never by position: returns come as mappings from the group (an environment, a skill) to
its members (plays, attempts). Plays that failed without a return are simply not there, and the rest of their group
keeps its own baseline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Member = TypeVar("Member")

MIN_SPREAD = 1e-9
"""Returns of a group that differ by no more are equal; their differences are rounding, not learning signal."""


@dataclass(frozen=True)
class Advantages(Generic[Member]):
    """``by_member`` has the members of live groups only.

    ``dead`` names the groups without variance (also groups of one): they teach nothing and are left out of the batch.
    """

    by_member: Mapping[Member, float]
    dead: tuple[str, ...]


def agent_advantages(returns: Mapping[str, Mapping[Member, float]], *, normalise: bool = True) -> Advantages[Member]:
    """Advantages of plays within their environment: (r - mean) / std (Shao et al. 2024, GRPO).

    ``returns`` maps an environment's id to the returns of its scored plays. std is that of the population. With
    ``normalise`` False the difference is not divided (Liu et al. 2025, Dr. GRPO). Raises ValueError for returns that
    are not finite and for a member in two groups.
    """
    return _within_groups(returns, normalise=normalise)


def designer_advantages(rewards: Mapping[str, Mapping[Member, float]]) -> Advantages[Member]:
    """Advantages of attempts within their skill: r - mean, without any further scale.

    How strongly the designer learns is the role weight's business alone (`batch.RoleWeights`). A skill with a single
    attempt has no baseline of its own; another skill's would reward easy skills, so it is dead and counted. Raises
    ValueError for rewards that are not finite and for a member in two skills.
    """
    return _within_groups(rewards, normalise=False)


def _within_groups(values: Mapping[str, Mapping[Member, float]], *, normalise: bool) -> Advantages[Member]:
    by_member: dict[Member, float] = {}
    dead: list[str] = []
    seen: set[Member] = set()
    for group, members in values.items():
        for member, value in members.items():
            if not math.isfinite(value):
                raise ValueError(f"{member!r} of {group} has the return {value}; a play without a return is left out")
            if member in seen:
                raise ValueError(f"{member!r} is in two groups, one of them {group}")
            seen.add(member)
        if not members or max(members.values()) - min(members.values()) <= MIN_SPREAD:
            dead.append(group)
            continue
        mean = math.fsum(members.values()) / len(members)
        std = math.sqrt(math.fsum((value - mean) ** 2 for value in members.values()) / len(members))
        for member, value in members.items():
            by_member[member] = (value - mean) / std if normalise else value - mean
    return Advantages(by_member, tuple(dead))
