"""Environments worth looking at: the best at the frontier, one that is mastered and one that nobody solves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spadework.curriculum.zones import Zone, zone_of
from spadework.roles.episode import Arm
from spadework.store.reader import PoolReader
from spadework.store.records import (
    AttemptRecord,
    DocumentRecord,
    EnvironmentRecord,
    EpisodeRecord,
    EpisodeSummary,
    Standing,
)

FRONTIER_SHOWN = 3


@dataclass(frozen=True)
class Exhibit:
    """One environment with what it was made from and how it was played; ``plain`` or ``hinted`` None: never played."""

    zone: Zone
    environment: EnvironmentRecord
    standing: Standing
    document: DocumentRecord
    attempt: AttemptRecord
    plain: EpisodeRecord | None
    hinted: EpisodeRecord | None


def gallery(pool: PoolReader, skills: Sequence[str]) -> tuple[Exhibit, ...]:
    """The exhibits of a pool: up to `FRONTIER_SHOWN` by regret, then one mastered and one unsolvable, if there are any.

    Raises StoreError.
    """
    by_zone: dict[Zone, list[Standing]] = {zone: [] for zone in Zone}
    for skill in skills:
        for standing in pool.standings(skill, 0):
            zone = zone_of(standing)
            if zone is not None:
                by_zone[zone].append(standing)
    chosen = [(Zone.FRONTIER, one) for one in sorted(by_zone[Zone.FRONTIER], key=_best_first)[:FRONTIER_SHOWN]]
    for zone in (Zone.MASTERED, Zone.UNSOLVABLE):
        chosen += [(zone, one) for one in sorted(by_zone[zone], key=_surest_first)[:1]]
    return tuple(_exhibit(pool, zone, standing) for zone, standing in chosen)


def _best_first(standing: Standing) -> tuple[float, str]:
    return (math.inf if standing.regret is None else -standing.regret, standing.environment_id)


def _surest_first(standing: Standing) -> tuple[int, int, str]:
    return (-standing.plain_plays, -standing.round, standing.environment_id)


def _exhibit(pool: PoolReader, zone: Zone, standing: Standing) -> Exhibit:
    environment = pool.environment(standing.environment_id)
    plain, hinted = _telling_pair(pool.episodes(environment.id))
    return Exhibit(
        zone,
        environment,
        standing,
        pool.document(environment.document_id),
        pool.attempt_of(environment.id),
        None if plain is None else pool.episode(plain.row),
        None if hinted is None else pool.episode(hinted.row),
    )


def _telling_pair(episodes: Sequence[EpisodeSummary]) -> tuple[EpisodeSummary | None, EpisodeSummary | None]:
    """A plain and a hinted play of one seed, best one that only the hint won; otherwise what there is of each arm."""
    scored = [episode for episode in episodes if episode.value is not None] or list(episodes)
    plain = [episode for episode in scored if episode.arm is Arm.PLAIN]
    hinted = {(one.iteration, one.seed): one for one in scored if one.arm is Arm.HINTED}
    pairs = [(one, hinted[one.iteration, one.seed]) for one in plain if (one.iteration, one.seed) in hinted]
    if pairs:
        return max(pairs, key=lambda pair: (pair[1].value or 0.0) - (pair[0].value or 0.0))
    return next(iter(plain), None), next(iter(hinted.values()), None)
