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
    "API orchestration": "chaining calls so that what one returns is what the next one needs. "
    "Ideas: create, configure and activate a resource; look up, reserve and confirm; move a record through its stages.",
    "data retrieval": "finding the one record or value that is meant, and acting on it alone. "
    "Ideas: records that differ in one field, pages of results, a reference that must be followed to another record.",
    "state modification": "changing several things that depend on each other, and nothing else. "
    "Ideas: limits that one change uses up for the next, a change that must be undone first, totals that must agree.",
    "error recovery": "noticing that a call has failed, finding out why and getting there in another way. "
    "Ideas: a resource that is locked until something is released, a rejected value, a step that was left out.",
    "tool selection": "choosing among tools that look alike by what they do in the state at hand. "
    "Ideas: two ways to cancel with different effects, a cheap and an exact lookup, a tool for each kind of record.",
    "multi-step workflows": "following a procedure of ordered steps whose branches depend on answers. "
    "Ideas: an onboarding, a return with inspection, a release that needs its approvals, a maintenance window.",
}


def describe_skill(skill: str) -> str:
    """The description of a known skill, or a plain one for a skill that the configuration invented."""
    return _DESCRIPTIONS.get(skill, f"getting better at {skill} by acting and observing.")
