"""What each skill asks of a player, in a sentence that a designer can work from."""

from __future__ import annotations

_DESCRIPTIONS = {
    "pattern recognition": "finding the regularity behind examples, sequences or responses and using it on new cases. "
    "Ideas: a cipher that is explored with chosen inputs, a map whose symbols follow a rule, a signal among noise.",
    "logical deduction": "drawing what must be true from facts and rules, and asking what settles most. "
    "Ideas: witnesses who may be mistaken, a grid filled from yes/no answers, locks that open under joint conditions.",
    "mathematical reasoning": "setting up and solving quantities, equations or counts from what can be measured. "
    "Ideas: an unknown mixture found by weighing, a budget kept over several trades, a number known by its remainders.",
    "spatial reasoning": "keeping track of places, directions, shapes and how they fit. "
    "Ideas: a building walked room by room, a load to be packed, a vehicle with little fuel and many obstacles.",
    "optimization": "doing as well as possible with limited means, where a greedy choice falls short. "
    "Ideas: a schedule with dependencies, offers that arrive one by one, stock that perishes while prices move.",
    "causal inference": "finding out what causes what by intervening and comparing. "
    "Ideas: a machine with a hidden rule and switches to try, a fault to be isolated, two treatments that interact.",
}


def describe_skill(skill: str) -> str:
    """The description of a known skill, or a plain one for a skill that the configuration invented."""
    return _DESCRIPTIONS.get(skill, f"getting better at {skill} by acting and observing.")
