"""From episodes to what is measured of an environment: a measure per iteration and arm, and a window per round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spadework.curriculum.estimates import estimate
from spadework.curriculum.rewards import Window
from spadework.roles.episode import Arm
from spadework.store.reader import PoolReader
from spadework.store.records import EpisodeRecord, Measure


def measures_of(episodes: Iterable[EpisodeRecord], round_: int) -> tuple[Measure, ...]:
    """One measure per environment, iteration and arm of ``episodes``, in order of first appearance."""
    groups: dict[tuple[str, int, Arm], list[float | None]] = {}
    for record in episodes:
        key = (record.episode.environment_id, record.iteration, record.episode.arm)
        groups.setdefault(key, []).append(record.value)
    return tuple(_measure(*key, round_, values) for key, values in groups.items())


def window_of(pool: PoolReader, environment_id: str, skill: str, iterations: Sequence[int]) -> Window:
    """What the plays of ``iterations`` measured; the hinted arm is that of the first.

    Read from the pool, so that a reward that waits for its window needs nothing else to survive a restart.
    Raises ValueError if a seed has two returns in one iteration and arm.
    """
    plain: dict[int, dict[int, float]] = {iteration: {} for iteration in iterations}
    hinted: dict[int, float] = {}
    for episode in pool.episodes(environment_id):
        if episode.value is None or episode.iteration not in plain:
            continue
        if episode.arm is Arm.PLAIN:
            returns = plain[episode.iteration]
        elif episode.iteration == iterations[0]:
            returns = hinted
        else:
            continue
        if episode.seed in returns:
            raise ValueError(
                f"environment {environment_id[:12]} has two returns for seed {episode.seed} in iteration "
                f"{episode.iteration}, {episode.arm.value} arm"
            )
        returns[episode.seed] = episode.value
    return Window(skill, tuple(plain.values()), hinted)


def _measure(environment_id: str, iteration: int, arm: Arm, round_: int, values: Sequence[float | None]) -> Measure:
    returns = [value for value in values if value is not None]
    known = estimate(returns) if returns else None
    return Measure(
        environment_id=environment_id,
        iteration=iteration,
        round=round_,
        arm=arm,
        plays=len(returns),
        wins=sum(value > 0 for value in returns),
        mean_return=None if known is None else known.mean,
        stderr=None if known is None else known.stderr,
        faults=len(values) - len(returns),
    )
