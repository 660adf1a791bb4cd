"""Which skills a round trains: a window that moves over the configured list."""

from __future__ import annotations

from collections.abc import Sequence


def skills_of_round(round_: int, skills: Sequence[str], per_round: int) -> tuple[str, ...]:
    """The ``per_round`` consecutive skills from position round * per_round, around the end of the list.

    Three of six give two halves in turn. Raises ValueError unless 1 <= per_round <= len(skills).
    """
    if not 1 <= per_round <= len(skills):
        raise ValueError(f"{per_round} skills a round cannot be taken from {len(skills)}; use 1 to {len(skills)}")
    start = round_ * per_round
    return tuple(skills[(start + offset) % len(skills)] for offset in range(per_round))


def skill_of_slot(slot: int, round_skills: Sequence[str]) -> str:
    """Slots take the skills of their round in turn."""
    return round_skills[slot % len(round_skills)]
