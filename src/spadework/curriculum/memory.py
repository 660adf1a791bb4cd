"""What the designer is shown of earlier environments: some to vary, some to avoid, and why.

Positives lie at the frontier and have the largest hint regret. Negatives are mastered or unsolvable, with what made
them so. The pool measures an environment in every iteration it is played, so that the rates shown are those up to the
last iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spadework.config import MemoryConfig
from spadework.curriculum.zones import Zone, zone_of
from spadework.roles.episode import EpisodeEnd
from spadework.seeding import generator
from spadework.store.reader import PoolReader
from spadework.store.records import EnvironmentRecord, PlayProfile, Standing


@dataclass(frozen=True)
class Example:
    """An earlier environment as the designer is shown it.

    Rates are wins per play; those of the hinted arm and ``regret`` are None if it was not played. ``mean_turns`` is of
    plain plays, None if all of them failed. ``text`` is the example in words and ``tokens`` what it costs.
    """

    environment_id: str
    class_name: str
    zone: Zone
    plain_rate: float
    hinted_rate: float | None
    regret: float | None
    mean_turns: float | None
    instances: int
    hint: str
    summary: str
    text: str
    tokens: int


@dataclass(frozen=True)
class Memory:
    """What one attempt is shown. ``tokens`` never exceeds `MemoryConfig.max_tokens`."""

    positives: tuple[Example, ...] = ()
    negatives: tuple[Example, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(example.tokens for example in (*self.positives, *self.negatives))


def select_memory(
    pool: PoolReader,
    skill: str,
    round_: int,
    config: MemoryConfig,
    run_seed: int,
    slot: int,
    attempt: int,
    count_tokens: Callable[[str], int],
) -> Memory:
    """The memory of one attempt, drawn by (run seed, round, slot, attempt) from the last environments of ``skill``.

    Positives are drawn evenly from the ``candidates`` of highest regret among those at the frontier. Negatives are too
    easy and too hard ones in turn, as far as there are both. An example that would exceed the token budget is passed
    over for the next one drawn; none is ever cut.
    """
    if not config.enabled:
        return Memory()
    seen = pool.standings(skill, round_ - config.window_rounds, round_ - 1)
    standings = [(zone_of(standing), standing) for standing in seen]
    rng = generator(run_seed, "memory", round_, slot, attempt)
    frontier = [s for z, s in standings if z is Zone.FRONTIER and s.regret is not None]
    best = sorted(frontier, key=lambda s: (-(s.regret or 0.0), s.environment_id))[: config.candidates]
    easy = [s for z, s in standings if z is Zone.MASTERED]
    hard = [s for z, s in standings if z is Zone.UNSOLVABLE]
    wanted = [(Zone.FRONTIER, s) for s in _shuffled(best, rng)]
    unwanted = _in_turn(
        [(Zone.MASTERED, s) for s in _shuffled(easy, rng)], [(Zone.UNSOLVABLE, s) for s in _shuffled(hard, rng)], rng
    )
    positives = _within(pool, wanted, config.positives, config.max_tokens, count_tokens)
    spent = sum(example.tokens for example in positives)
    negatives = _within(pool, unwanted, config.negatives, config.max_tokens - spent, count_tokens)
    return Memory(positives, negatives)


def _within(
    pool: PoolReader,
    drawn: Sequence[tuple[Zone, Standing]],
    count: int,
    budget: int,
    count_tokens: Callable[[str], int],
) -> tuple[Example, ...]:
    """The first ``count`` of ``drawn`` that fit what is left of the budget."""
    chosen: list[Example] = []
    for place, standing in drawn:
        if len(chosen) == count:
            break
        example = _example(pool, place, standing, count_tokens)
        if example.tokens <= budget:
            chosen.append(example)
            budget -= example.tokens
    return tuple(chosen)


def _example(pool: PoolReader, place: Zone, standing: Standing, count_tokens: Callable[[str], int]) -> Example:
    environment = pool.environment(standing.environment_id)
    profile = pool.play_profile(standing.environment_id)
    text = "\n".join(_describe(place, standing, environment, profile))
    return Example(
        environment_id=environment.id,
        class_name=environment.class_name,
        zone=place,
        plain_rate=standing.plain_wins / standing.plain_plays,
        hinted_rate=standing.hinted_wins / standing.hinted_plays if standing.hinted_plays else None,
        regret=standing.regret,
        mean_turns=profile.mean_turns,
        instances=profile.instances,
        hint=environment.hint,
        summary=environment.summary,
        text=text,
        tokens=count_tokens(text),
    )


def _describe(place: Zone, standing: Standing, environment: EnvironmentRecord, profile: PlayProfile) -> list[str]:
    plain = f"won {standing.plain_wins} of {standing.plain_plays} plays"
    hinted = f" and {standing.hinted_wins} of {standing.hinted_plays} with its hint" if standing.hinted_plays else ""
    turns = "" if profile.mean_turns is None else f", in {profile.mean_turns:.1f} turns on average"
    rates = f"{plain}{hinted} over {profile.instances} instances{turns}"
    match place:
        case Zone.FRONTIER:
            gain = "" if standing.regret is None else f" (the hint gained {standing.regret:+.2f})"
            return [f"At the frontier: {rates}{gain}.", environment.summary, f"hint: {environment.hint}"]
        case Zone.MASTERED:
            return [f"Too easy: {rates}{_why_easy(profile)}.", environment.summary]
        case Zone.UNSOLVABLE:
            return [f"Too hard: {rates}{_why_hard(standing, profile)}.", environment.summary]


def _why_easy(profile: PlayProfile) -> str:
    if profile.mean_turns is not None and profile.mean_turns < 2.0:
        return "; most plays were over after one action, so there was nothing to find out"
    return ""


def _why_hard(standing: Standing, profile: PlayProfile) -> str:
    plays = max(1, sum(profile.ends.values()))
    reasons = []
    if profile.ends.get(EpisodeEnd.TURN_LIMIT, 0) > plays / 2:
        reasons.append("most plays ran out of turns")
    if profile.ends.get(EpisodeEnd.TERMINATED, 0) > plays / 2:
        reasons.append("most plays were lost by a wrong action")
    if standing.hinted_plays and standing.hinted_wins == 0:
        reasons.append("not even the hint helped")
    return "; " + " and ".join(reasons) if reasons else ""


def _shuffled(standings: Sequence[Standing], rng: np.random.Generator) -> list[Standing]:
    return [standings[index] for index in rng.permutation(len(standings))]


def _in_turn(
    one: list[tuple[Zone, Standing]], other: list[tuple[Zone, Standing]], rng: np.random.Generator
) -> list[tuple[Zone, Standing]]:
    """Items of both lists alternately, beginning with either; what is left of the longer one follows."""
    first, second = (one, other) if rng.integers(2) == 0 else (other, one)
    paired = [item for pair in zip(first, second, strict=False) for item in pair]
    shorter = min(len(first), len(second))
    return [*paired, *first[shorter:], *second[shorter:]]
