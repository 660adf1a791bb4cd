"""The families of the seed model's grammar, by skill: games first, then tool environments."""

from __future__ import annotations

from spadework.seedmodel.families import (
    causal,
    logic,
    mathematics,
    modification,
    optimization,
    pattern,
    retrieval,
    selection,
    spatial,
    workflows,
)
from spadework.seedmodel.grammar import Family

HELD_OUT = ("reverse", "count", "dig", "chain", "both")
"""Families that neither role of the seed model ever sees before evaluation."""

GAMES: tuple[Family, ...] = (
    *pattern.FAMILIES,
    *logic.FAMILIES,
    *mathematics.FAMILIES,
    *spatial.FAMILIES,
    *optimization.FAMILIES,
    *causal.FAMILIES,
)
TOOL_ENVIRONMENTS: tuple[Family, ...] = (
    *retrieval.FAMILIES,
    *modification.FAMILIES,
    *workflows.FAMILIES,
    *selection.FAMILIES,
)
ALL: tuple[Family, ...] = (*GAMES, *TOOL_ENVIRONMENTS)

TRAINED: tuple[Family, ...] = tuple(family for family in ALL if family.name not in HELD_OUT)


def family(name: str) -> Family:
    return next(candidate for candidate in ALL if candidate.name == name)
