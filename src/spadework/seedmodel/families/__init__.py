"""The families of the seed model's grammar, by cognitive skill."""

from __future__ import annotations

from spadework.seedmodel.families import causal, logic, mathematics, optimization, pattern, spatial
from spadework.seedmodel.grammar import Family

HELD_OUT = ("reverse", "count", "dig")
"""Families that neither role of the seed model ever sees before evaluation."""

ALL: tuple[Family, ...] = (
    *pattern.FAMILIES,
    *logic.FAMILIES,
    *mathematics.FAMILIES,
    *spatial.FAMILIES,
    *optimization.FAMILIES,
    *causal.FAMILIES,
)

TRAINED: tuple[Family, ...] = tuple(family for family in ALL if family.name not in HELD_OUT)
UNSEEN: tuple[Family, ...] = tuple(family for family in ALL if family.name in HELD_OUT)


def family(name: str) -> Family:
    return next(candidate for candidate in ALL if candidate.name == name)
