"""The pool keeps whole iterations, answers from indexes, and says clearly what it cannot read."""

import json
import sqlite3
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from math import sqrt
from pathlib import Path

import pytest
import store_records as made

from spadework.roles.episode import Arm, Turn
from spadework.store.errors import StoreError
from spadework.store.pool import Pool
from spadework.store.reader import PoolReader
from spadework.store.records import IterationRecords
from spadework.store.rows import episode_of_rows, pack_text, transcript_row
from spadework.store.standings import pool as pool_measures


def filled(path: Path, iterations: int = 3) -> Pool:
    pool = Pool.open(path)
    for iteration in range(iterations):
        pool.write(made.iteration_records(iteration))
    return pool


def contents(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with sqlite3.connect(path) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=repr) for table in tables}


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    records = made.iteration_records(0)
    with Pool.open(tmp_path / "pool.sqlite") as pool:
        pool.write(records)
    with PoolReader.open(tmp_path / "pool.sqlite") as reader:
        assert reader.environments(0) == records.environments
        assert reader.attempts(0) == records.attempts
        assert reader.attempt_of(made.environment_id(0)) == records.attempts[1]
        assert reader.document("doc-0") == records.documents[0]
        assert reader.measures(made.environment_id(0)) == records.measures
        assert reader.measures_of_iteration(0) == records.measures
        summaries = reader.episodes(made.environment_id(0), Arm.PLAIN)
        assert [reader.episode(summary.row) for summary in summaries] == list(records.episodes)
        assert [(s.seed, s.turns, s.value) for s in summaries] == [(1, 2, 1.0), (2, 2, 0.0)]
        assert reader.episodes(made.environment_id(0), Arm.HINTED) == ()


def test_turns_of_an_earlier_version_do_not_say_which_weights_sampled_them() -> None:
    head = ("plain", 3, "terminated", "ok", None, "")
    transcript = pack_text(json.dumps([[["You see a door.", "open", "open", 0.5]], "Done."]))
    _, tokens, sampled, logprobs = transcript_row(made.episode(0, 3).episode)
    found = episode_of_rows("e", head, (transcript, tokens, sampled, logprobs))
    assert found.turns == (Turn("You see a door.", "open", "open", 0.5, policy_version=None),)


def test_taking_back_iterations_leaves_the_pool_as_if_they_had_never_been_written(tmp_path: Path) -> None:
    filled(tmp_path / "short.sqlite", 2).close()
    with filled(tmp_path / "long.sqlite", 5) as pool:
        pool.rollback_to(1)
        assert pool.last_iteration() == 1
    assert contents(tmp_path / "long.sqlite") == contents(tmp_path / "short.sqlite")


def test_a_pool_that_was_rolled_back_continues_like_one_that_was_not(tmp_path: Path) -> None:
    filled(tmp_path / "straight.sqlite", 4).close()
    with filled(tmp_path / "back.sqlite", 3) as pool:
        pool.rollback_to(0)
        for iteration in (1, 2, 3):
            pool.write(made.iteration_records(iteration))
    assert contents(tmp_path / "back.sqlite") == contents(tmp_path / "straight.sqlite")


def test_rolling_back_to_before_the_start_empties_the_pool(tmp_path: Path) -> None:
    with filled(tmp_path / "pool.sqlite") as pool:
        pool.rollback_to(-1)
        assert pool.last_iteration() is None
    assert not any(contents(tmp_path / "pool.sqlite").values())


def test_a_checkpoint_newer_than_the_pool_is_refused(tmp_path: Path) -> None:
    with (
        filled(tmp_path / "pool.sqlite") as pool,
        pytest.raises(StoreError, match=r"ends at iteration 2 but .* is of iteration 7"),
    ):
        pool.rollback_to(7)


def test_an_iteration_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with filled(tmp_path / "pool.sqlite", 1) as pool:
        before = contents(tmp_path / "pool.sqlite")
        unknown_environment = made.iteration_records(1, number=1)
        broken = replace(
            unknown_environment, episodes=(*unknown_environment.episodes, made.episode(99, 1, iteration=1))
        )
        with pytest.raises(StoreError, match="environment 000000630000 is not in the pool"):
            pool.write(broken)
        with pytest.raises(StoreError, match="contradicts the pool"):
            pool.write(replace(made.iteration_records(1, number=0)))
        assert contents(tmp_path / "pool.sqlite") == before


def test_iterations_are_written_once_and_in_order(tmp_path: Path) -> None:
    with filled(tmp_path / "pool.sqlite", 2) as pool:
        with pytest.raises(StoreError, match="already has iteration 1"):
            pool.write(made.iteration_records(1, number=7))
        with pytest.raises(StoreError, match="EpisodeRecord of iteration 0 cannot be written with iteration 5"):
            pool.write(IterationRecords(5, 5, episodes=(made.episode(0, 1),)))


def test_a_document_that_changed_is_refused(tmp_path: Path) -> None:
    with filled(tmp_path / "pool.sqlite", 1) as pool, pytest.raises(StoreError, match="'doc-0' has another text"):
        pool.write(IterationRecords(1, 1, documents=(replace(made.document(0), text="other"),)))


def test_an_environment_is_found_by_a_prefix_and_candidates_are_named(tmp_path: Path) -> None:
    with Pool.open(tmp_path / "pool.sqlite") as pool:
        pool.write(IterationRecords(0, 0, environments=(made.environment(0x10), made.environment(0x11))))
        assert pool.environment("00000011").class_name == "Maze17Env"
        assert pool.environment(made.environment_id(0x10)).class_name == "Maze16Env"
        with pytest.raises(
            StoreError, match=r"several .* '0000001': 000000100000 \(Maze16Env, round 0\), 000000110000"
        ):
            pool.environment("0000001")
        with pytest.raises(StoreError, match=r"no environment .* starts with 'ff'; the latest are: 000000110000"):
            pool.environment("ff")


def test_attempts_are_counted_by_status_and_gate(tmp_path: Path) -> None:
    attempts = (
        made.rejected(0, 0, "contract"),
        made.attempt(0, 1),
        made.rejected(1, 0, "solvable"),
        made.rejected(1, 1, "contract"),
        made.attempt(2, 0, status="truncated", gates=()),
    )
    with Pool.open(tmp_path / "pool.sqlite") as pool:
        pool.write(IterationRecords(0, 0, attempts=attempts))
        assert pool.attempt_counts() == {
            ("rejected", "contract"): 2,
            ("rejected", "solvable"): 1,
            ("truncated", None): 1,
            ("valid", None): 1,
        }
        firsts = {("rejected", "contract"): 1, ("rejected", "solvable"): 1, ("truncated", None): 1}
        assert pool.attempt_counts(0, 0, first_attempts_only=True) == firsts
        assert pool.attempt_counts(1, 3) == {}


def test_pooled_measures_equal_those_of_all_plays_together() -> None:
    # Returns 0 0 1 1 (mean 1/2, stderr sqrt(1/12)) and 1 1 (mean 1, stderr 0): together 4 of 6.
    one = made.measure(0, 0, Arm.PLAIN, 4, 2, 0.5, sqrt(1 / 12))
    two = made.measure(0, 1, Arm.PLAIN, 2, 2, 1.0, 0.0)
    single = made.measure(0, 2, Arm.PLAIN, 1, 0, -1.0, None)
    pooled = pool_measures([one, two])
    assert (pooled.plays, pooled.wins) == (6, 4)
    assert pooled.mean == pytest.approx(2 / 3)
    # Sum of squared deviations 2 * (2/3)^2 + 4 * (1/3)^2 = 12/9; variance 12/45; over 6 plays.
    assert pooled.stderr == pytest.approx(sqrt(12 / 45 / 6))
    assert pool_measures([single]).stderr is None
    assert pool_measures([made.measure(0, 0, Arm.PLAIN, 0, 0, None, None)]).mean is None
    # Returns 0 0 1 1 1 1 -1: mean 3/7.
    assert pool_measures([one, two, single]).mean == pytest.approx(3 / 7)


def test_regret_compares_the_arms_in_the_iterations_that_both_played(tmp_path: Path) -> None:
    measures = (
        (made.measure(0, 0, Arm.PLAIN, 4, 1, 0.25, 0.25), made.measure(0, 0, Arm.HINTED, 4, 3, 0.75, 0.25)),
        (made.measure(0, 1, Arm.PLAIN, 4, 4, 1.0, 0.0),),
    )
    with Pool.open(tmp_path / "pool.sqlite") as pool:
        pool.write(IterationRecords(0, 0, environments=(made.environment(0),), measures=measures[0]))
        pool.write(IterationRecords(1, 0, measures=measures[1]))
        (found,) = pool.standings("logical deduction", 0)
        assert (found.plain_plays, found.plain_wins, found.plain_mean) == (8, 5, 0.625)
        assert found.regret == 0.5
        assert found.regret_stderr == pytest.approx(sqrt(0.125))
        assert pool.standings("logical deduction", 1) == ()
        assert pool.standings("spatial reasoning", 0) == ()


def test_how_plain_plays_went(tmp_path: Path) -> None:
    episodes = (made.episode(0, 1), made.episode(0, 1), made.episode(0, 2, value=None), made.episode(0, 3, Arm.HINTED))
    with Pool.open(tmp_path / "pool.sqlite") as pool:
        pool.write(IterationRecords(0, 0, environments=(made.environment(0),), episodes=episodes))
        profile = pool.play_profile(made.environment_id(0))
    assert (profile.instances, profile.mean_turns, profile.ends) == (2, 2.0, {"fault": 1, "terminated": 2})


def test_no_query_reads_a_whole_table(tmp_path: Path) -> None:
    with filled(tmp_path / "pool.sqlite") as pool:
        queries: list[str] = []
        pool._connection.set_trace_callback(queries.append)
        id_ = made.environment_id(1)
        for environment_prefix in (id_, "0000000"):
            with suppress(StoreError):
                pool.environment(environment_prefix)
        pool.environments(1)
        pool.attempts(1)
        pool.attempt_of(id_)
        pool.attempt_counts(1, 2)
        pool.episode(pool.episodes(id_)[0].row)
        pool.measures(id_)
        pool.measures_of_iteration(1)
        pool.standings("logical deduction", 1, 2)
        pool.play_profile(id_)
        pool.twin("0" * 64)
        pool.alike((1, 2, 3), 5)
        pool.document("doc-0")
        pool.last_iteration()
        pool.last_round()
        pool.write(made.iteration_records(3))
        pool.rollback_to(2)
        pool._connection.set_trace_callback(None)
        plans = {q: pool._connection.execute(f"EXPLAIN QUERY PLAN {q}").fetchall() for q in queries if " " in q}
    assert len(plans) > 20
    scanned = [
        (query, step)
        for query, plan in plans.items()
        for *_, step in plan
        if step.startswith("SCAN") and "found" not in step and "CONSTANT" not in step
    ]
    # Naming candidates reads the newest eight from the end of the table.
    assert [query for query, _ in scanned if "ORDER BY row DESC LIMIT" not in query] == []


def test_of_many_environments_that_share_a_band_the_newest_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All share the band 2**63 - 1."""
    with filled(tmp_path / "pool.sqlite", 5) as pool:
        newest_first = [made.environment_id(number) for number in (4, 3, 2, 1, 0)]
        assert {id_ for id_, _ in pool.alike((2**63 - 1, -100), 9)} == set(newest_first)
        monkeypatch.setattr("spadework.store.reader.MAX_SHARING", 2)
        assert {id_ for id_, _ in pool.alike((2**63 - 1, -100), 9)} == set(newest_first[:2])


def test_readers_see_whole_iterations_while_the_pool_is_written(tmp_path: Path) -> None:
    with filled(tmp_path / "pool.sqlite", 1) as pool, PoolReader.open(tmp_path / "pool.sqlite") as reader:
        assert reader.last_iteration() == 0
        pool.write(made.iteration_records(1))
        assert reader.last_iteration() == 1
        pool._connection.execute("BEGIN IMMEDIATE")
        pool._insert(made.iteration_records(2))
        assert reader.last_iteration() == 1
        assert reader.episodes(made.environment_id(2)) == ()
        pool._connection.execute("ROLLBACK")


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    filled(tmp_path / "pool.sqlite", 1).close()
    with PoolReader.open(tmp_path / "pool.sqlite") as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._connection.execute("DELETE FROM environment")


def test_a_writer_killed_between_insert_and_commit_leaves_the_last_whole_iteration(tmp_path: Path) -> None:
    filled(tmp_path / "pool.sqlite", 2).close()
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path; import store_records as made; from spadework.store.pool import Pool\n"
        "pool = Pool.open(Path(sys.argv[1])); pool._connection.execute('BEGIN IMMEDIATE')\n"
        "pool._insert(made.iteration_records(2)); os.kill(os.getpid(), 9)\n"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path / "pool.sqlite"), str(Path(__file__).parent)]
    assert subprocess.run(arguments, check=False).returncode == -9
    with Pool.open(tmp_path / "pool.sqlite") as pool:
        assert pool.last_iteration() == 1
        pool.write(made.iteration_records(2))


@pytest.mark.parametrize("opened", [Pool.open, PoolReader.open])
def test_databases_that_cannot_be_used_get_one_sentence(tmp_path: Path, opened: type) -> None:
    junk, foreign, newer, torn = (tmp_path / name for name in ("junk", "foreign", "newer", "torn"))
    junk.write_bytes(b"not a database, and long enough to be read as one" * 100)
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE notes (text)")
    filled(newer, 1).close()
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 99")
    filled(torn, 1).close()
    torn.write_bytes(torn.read_bytes()[:5000])
    expected = {
        junk: "not a readable database",
        foreign: "of another program",
        newer: "schema version 99 and this spadework reads version 3",
        torn: "not a readable database",
    }
    for path, message in expected.items():
        with pytest.raises(StoreError, match=message) as raised, opened(path) as pool:
            pool.environments(0)
        assert "\n" not in str(raised.value)
        assert str(path) in str(raised.value)


def test_a_pool_of_the_version_before_is_read_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "pool.sqlite"
    filled(path, 1).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    with PoolReader.open(path) as pool:
        assert pool.environments(0)
    with pytest.raises(StoreError, match="schema version 2 and this spadework reads version 3"):
        Pool.open(path)


def test_a_missing_pool_is_not_created_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no pool at"):
        PoolReader.open(tmp_path / "pool.sqlite")
    assert list(tmp_path.iterdir()) == []
