"""What a larger run or pool must not change: that plays go on at once, and what an iteration asks of the pool."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from filled_pools import fill, iterate_on
from timed_engine import Decoding, Speed, TimedEngine, shortest_s
from timed_run import Recorder, Timed, paper_config, save_corpus, seed_rendering, timed_run
from trail_policy import TrailPolicy, Wordiness

from spadework.config import Config
from spadework.roles.episode import Arm, EpisodeEnd
from spadework.store.reader import PoolReader

ROUND = 2
SLOW = Speed(latency_s=0.02, row_tokens_per_s=4000)


@pytest.fixture(scope="module")
def policy() -> TrailPolicy:
    return TrailPolicy(seed_rendering(), places=20, words=Wordiness(agent=30), valid=0.7)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Two environments, three plays, two iterations a round."""
    corpus = save_corpus(tmp_path_factory.mktemp("corpus") / "corpus.jsonl", documents=50, words=100)
    curriculum = {"environments": 2, "plays": 3, "round_iterations": ROUND, "skills_per_round": 2}
    return paper_config(corpus, iterations=3, curriculum=curriculum)


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("timed") / "run"


@pytest.fixture(scope="module")
def timed(config: Config, policy: TrailPolicy, run_path: Path) -> Timed:
    return timed_run(run_path, config, SLOW, policy)


def test_all_plays_of_an_iteration_and_all_attempts_of_a_wave_are_in_flight_at_once(timed: Timed) -> None:
    assert all(peak == size for peak, size in timed.engine.peaks)
    plays = [size for _, size in timed.engine.peaks if size > 2]
    assert plays == [12, 6, 12]


def test_the_engines_own_time_is_counted_and_the_run_took_at_least_as_long(timed: Timed) -> None:
    design, play = timed.recorder.stages["design"], timed.recorder.stages["play"]
    assert play.engine > 3 * 10 * SLOW.latency_s
    assert play.wall >= play.engine and design.wall >= design.engine > 0


def test_the_pool_has_every_attempt_environment_and_play_of_ten_turns(timed: Timed, run_path: Path) -> None:
    with PoolReader.open(run_path / "pool.sqlite") as pool:
        for round_, iterations in ((0, 2), (1, 1)):
            environments = pool.environments(round_)
            assert len(environments) == 2
            accepted = [one for one in pool.attempts(round_) if one.status == "accepted"]
            assert {one.environment_id for one in accepted} == {one.id for one in environments}
            for environment in environments:
                assert len(pool.episodes(environment.id, Arm.PLAIN)) == 3 * iterations
                assert len(pool.episodes(environment.id, Arm.HINTED)) == 3
                for episode in pool.episodes(environment.id):
                    assert (episode.turns, episode.end) == (10, EpisodeEnd.TERMINATED)
                assert len(pool.measures(environment.id)) == iterations + 1


# What an iteration asks of the pool


@pytest.fixture(scope="module")
def asked_of(config: Config, policy: TrailPolicy, tmp_path_factory: pytest.TempPathFactory):
    def ask(rounds: int):
        path = tmp_path_factory.mktemp("filled") / "run"
        fill(path, config, range(rounds))
        return path, iterate_on(path, config, policy, Recorder(TimedEngine(policy, Speed())), rounds, trace=True)

    return ask


def test_no_statement_of_an_iteration_walks_through_a_table(asked_of) -> None:
    path, asked = asked_of(3)
    statements = {re.sub(r"x'[0-9A-Fa-f]*'|'[^']*'|\b-?\d+(\.\d+)?\b", "?", one): one for one in asked.statements}
    verbs = {one.split()[0] for one in statements}
    assert {"SELECT", "INSERT"} <= verbs
    with sqlite3.connect(path / "pool.sqlite") as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        for shape, statement in statements.items():
            if shape.split()[0] not in ("SELECT", "DELETE", "UPDATE"):
                continue
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
            walked = [step for step in plan if (found := re.match(r"SCAN (\w+)", step)) and is_table(found[1], tables)]
            assert walked == [], f"{shape}: {walked}"


def is_table(name: str, tables: set[str]) -> bool:
    """The reader's names for tables within a query have one letter."""
    return name in tables or len(name) == 1


def test_an_iteration_asks_as_much_of_a_large_pool_as_of_a_small_one(asked_of) -> None:
    """Of 40 rounds and of 400: the memory looks back 25. Instructions of SQLite's machine, so that nothing is timed."""
    (_, small), (_, large) = asked_of(40), asked_of(400)
    assert small.instructions > 0
    assert large.instructions < 1.5 * small.instructions
    assert len(large.statements) < 1.5 * len(small.statements)


# The engine's model of time, worked out by hand


def test_a_row_alone_decodes_at_its_own_speed_after_the_latency() -> None:
    assert shortest_s([[100, 50]], Speed(latency_s=0.5, row_tokens_per_s=100)) == pytest.approx(0.5 + 1 + 0.5 + 0.5)


def test_rows_that_together_exceed_the_speed_of_the_whole_share_it() -> None:
    """Two rows of 100 and 200 tokens at 100 a second each and 100 in all: 50 each until 2 s, then 100 more at 100."""
    speed = Speed(row_tokens_per_s=100, total_tokens_per_s=100)
    assert shortest_s([[100], [200]], speed) == pytest.approx(3.0)
    decoding = Decoding(speed)
    short, long = decoding.add(0.0, 100), decoding.add(0.0, 200)
    assert decoding.next_end() == pytest.approx(2.0)
    assert decoding.take(10.0) == [(short, pytest.approx(2.0)), (long, pytest.approx(3.0))]
    assert decoding.next_end() is None


def test_chains_do_not_wait_for_each_other() -> None:
    assert shortest_s([[10, 10, 10], [50], []], Speed(row_tokens_per_s=10)) == pytest.approx(5.0)


def test_an_engine_without_limits_needs_no_time() -> None:
    assert shortest_s([[10, 10], [50]], Speed()) == 0.0
