"""A mediocre player: right often enough to show how each game is won, wrong often enough to leave room to learn."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from spadework.seedmodel.families import ALL
from spadework.seedmodel.grammar import Family


def current_stage(observations: Sequence[str]) -> tuple[Family, re.Match[str], int]:
    """The stage that is being played, its opening, and the index of the observation that opened it.

    Raises ValueError if no observation opens a stage of the grammar.
    """
    for index in range(len(observations) - 1, -1, -1):
        for family in ALL:
            match = family.opening.fullmatch(observations[index])
            if match:
                return family, match, index
    raise ValueError(f"no stage of the grammar opens in {observations!r}")


def choose(observations: Sequence[str], actions: Sequence[str], skill: float, rng: np.random.Generator) -> str:
    """The next action: with probability ``skill`` the expert's, otherwise any move."""
    family, opening, start = current_stage(observations)
    history = list(zip(actions[start:], observations[start + 1 :], strict=True))
    if rng.random() < skill:
        return family.expert(opening, history)
    moves = family.moves(opening, history)
    return moves[int(rng.integers(len(moves)))]
