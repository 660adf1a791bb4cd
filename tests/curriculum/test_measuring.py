"""Measures and windows are taken from episodes by environment, iteration, arm and seed."""

from math import sqrt
from pathlib import Path

import pytest

from spadework.curriculum.measuring import measures_of, window_of
from spadework.curriculum.rewards import Window
from spadework.curriculum.zones import Zone, zone_of
from spadework.roles.episode import Arm, Episode, EpisodeEnd
from spadework.sandbox.outcomes import Outcome
from spadework.store.pool import Pool
from spadework.store.records import EnvironmentRecord, EpisodeRecord, IterationRecords, Measure

SKILL = "optimization"
ONE, TWO = "1" * 64, "2" * 64


def played(
    iteration: int, seed: int, value: float | None, arm: Arm = Arm.PLAIN, environment: str = ONE
) -> EpisodeRecord:
    outcome = Outcome.OK if value is not None else Outcome.INFRASTRUCTURE_FAULT
    return EpisodeRecord(
        iteration, Episode(environment, arm, seed, EpisodeEnd.TERMINATED, outcome, (), (), (), ()), value
    )


def test_episodes_are_grouped_by_environment_and_arm() -> None:
    episodes = [
        played(3, 0, 1.0),
        played(3, 0, 0.5, environment=TWO),
        played(3, 1, -1.0),
        played(3, 0, None, Arm.HINTED),
        played(3, 2, None),
    ]
    assert measures_of(episodes, 1) == (
        Measure(ONE, 3, 1, Arm.PLAIN, 2, 1, 0.0, sqrt(2 / 2), 1),
        Measure(TWO, 3, 1, Arm.PLAIN, 1, 1, 0.5, None, 0),
        Measure(ONE, 3, 1, Arm.HINTED, 0, 0, None, None, 1),
    )


def test_a_window_is_read_back_from_the_pool(tmp_path: Path) -> None:
    environment = EnvironmentRecord(ONE, 0, 4, 0, SKILL, "doc", "XEnv", "", "", "", "f")
    by_iteration = {
        4: [played(4, 7, 1.0), played(4, 8, 0.0), played(4, 9, None), played(4, 7, 0.5, Arm.HINTED)],
        5: [],
        6: [played(6, 7, 0.25)],
        7: [played(7, 7, 1.0)],
    }
    with Pool.open(tmp_path / "pool.sqlite") as pool:
        for iteration, episodes in by_iteration.items():
            made = (environment,) if iteration == 4 else ()
            measures = measures_of(episodes, 0)
            pool.write(IterationRecords(iteration, 0, (), (), made, tuple(episodes), measures))
        window = window_of(pool, ONE, SKILL, range(4, 7))
        assert window == Window(SKILL, ({7: 1.0, 8: 0.0}, {}, {7: 0.25}), {7: 0.5})
        (standing,) = pool.standings(SKILL, 0)
        assert zone_of(standing) is Zone.FRONTIER
        pool.write(IterationRecords(8, 0, episodes=(played(8, 7, 1.0), played(8, 7, 0.0))))
        with pytest.raises(ValueError, match="two returns for seed 7 in iteration 8, plain arm"):
            window_of(pool, ONE, SKILL, [8])
