"""A whole run in small: what it plays, what it trains, what it keeps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from selfplay_world import Trained, open_policy, run_once, save_corpus, save_model, small_config, without_times

from spadework.config import Config
from spadework.curriculum.documents import CorpusError
from spadework.roles.episode import Arm, Episode
from spadework.sandbox.outcomes import Outcome
from spadework.store.glossary import METRICS
from spadework.store.metrics import read_metrics
from spadework.store.pool import Pool
from spadework.store.reader import PoolReader
from spadework.store.run_directory import RunDirectory


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    place = tmp_path_factory.mktemp("world")
    return small_config(save_model(place / "model"), save_corpus(place / "corpus.jsonl"))


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run") / "run"


@pytest.fixture(scope="module")
def trained(config: Config, run_path: Path) -> Trained:
    return run_once(run_path, config)


def episodes(path: Path, iteration: int, arm: Arm) -> list[Episode]:
    with PoolReader.open(path / "pool.sqlite") as pool:
        ids = [environment.id for environment in pool.environments(iteration // 2)]
        found = [one for id_ in ids for one in pool.episodes(id_, arm) if one.iteration == iteration]
        return [pool.episode(one.row).episode for one in found]


def played(path: Path, iteration: int, arm: Arm) -> list[tuple[str, int]]:
    return sorted((episode.environment_id, episode.seed) for episode in episodes(path, iteration, arm))


def test_the_run_has_everything_that_can_happen(trained: Trained, run_path: Path) -> None:
    """What the other tests of this module rely on: rejected attempts, faults, wins of both arms, dead groups."""
    with PoolReader.open(run_path / "pool.sqlite") as pool:
        counts = pool.attempt_counts()
    assert counts["accepted", None] == 9 and counts["parse", "parse"] >= 1
    assert sum(row.get("environments/faults/exception", 0) for row in trained.rows) >= 1
    assert trained.rows[0]["agent/hinted_return"] > trained.rows[0]["agent/plain_return"] > 0
    assert [row["iteration"] for row in trained.rows] == [0, 1, 2, 3, 4]
    assert trained.summary.metrics == trained.rows[-1]
    assert trained.summary.policy_version == trained.policy.policy_version == 10


def test_the_same_seed_gives_the_same_metrics_except_times(trained: Trained, config: Config, tmp_path: Path) -> None:
    again = run_once(tmp_path / "run", config)
    assert without_times(again.rows) == without_times(trained.rows)


def test_another_seed_gives_another_run(trained: Trained, config: Config, tmp_path: Path) -> None:
    other = run_once(tmp_path / "run", config.model_copy(update={"seed": 4, "iterations": 1}))
    assert without_times(other.rows) != without_times(trained.rows)[:1]


@pytest.mark.parametrize("iteration", [0, 2, 4])
def test_both_arms_play_the_same_seeds_in_a_rounds_first_iteration(
    trained: Trained, run_path: Path, iteration: int
) -> None:
    plain = played(run_path, iteration, Arm.PLAIN)
    assert len(set(plain)) == 3 * 4
    assert plain == played(run_path, iteration, Arm.HINTED)


@pytest.mark.parametrize("iteration", [1, 3])
def test_later_iterations_of_a_round_play_the_plain_arm_from_other_seeds(
    trained: Trained, run_path: Path, iteration: int
) -> None:
    assert played(run_path, iteration, Arm.HINTED) == []
    plain, before = played(run_path, iteration, Arm.PLAIN), played(run_path, iteration - 1, Arm.PLAIN)
    assert {id_ for id_, _ in plain} == {id_ for id_, _ in before}
    assert not set(plain) & set(before)


def test_every_designer_sample_is_trained_exactly_once_the_last_round_at_the_end(
    trained: Trained, run_path: Path
) -> None:
    assert all(row["learning/dead_skills"] == 0 for row in trained.rows)
    assert [row["learning/designer_sequences"] > 0 for row in trained.rows] == [False, False, True, False, True]
    rendering = trained.policy.rendering
    texts = Counter(
        text
        for data in trained.policy.trained
        for datum in data
        if "user\ndesign " in (text := rendering.decode(datum.token_ids_T))
    )
    with PoolReader.open(run_path / "pool.sqlite") as pool:
        replies = [attempt.reply for round_ in range(3) for attempt in pool.attempts(round_)]
    assert set(texts.values()) == {1}
    found = [text.split("assistant\n")[1].removesuffix("<|im_end|>") for text in texts]
    assert sorted(found) == sorted(replies)


def test_only_plain_plays_without_faults_are_trained(trained: Trained, run_path: Path) -> None:
    seen = {datum.token_ids_T for data in trained.policy.trained for datum in data}
    for iteration in range(5):
        for arm in Arm:
            for episode in episodes(run_path, iteration, arm):
                if arm is Arm.HINTED or episode.outcome is Outcome.ENVIRONMENT_FAULT:
                    assert episode.token_ids_T not in seen


def test_delayed_designs_are_trained_against_the_policy_before_the_update(trained: Trained, run_path: Path) -> None:
    """Those of rounds 0 and 1 were sampled two iterations earlier; the last round's in the same one."""
    designs = {
        datum.token_ids_T: datum
        for data in trained.policy.trained
        for datum in data
        if "user\ndesign " in trained.policy.rendering.decode(datum.token_ids_T)
    }
    sampled = {datum.token_ids_T: datum for data in trained.policy.scored for datum in data}
    delayed = [(datum, sampled[ids]) for ids, datum in designs.items() if ids in sampled]
    with PoolReader.open(run_path / "pool.sqlite") as pool:
        assert len(delayed) == sum(len(pool.attempts(round_)) for round_ in (0, 1))
        assert len(designs) == len(delayed) + len(pool.attempts(2))
    for used, before in delayed:
        assert used.logprobs_T != before.logprobs_T
        assert used.logprobs_T == pytest.approx(before.logprobs_T, abs=0.5)
    for row in trained.rows:
        assert ("learning/tis_weight" in row) == (row["learning/designer_sequences"] > 0)


def test_both_roles_gradients_are_measured_apart(trained: Trained) -> None:
    for row in trained.rows:
        shares = [row.get(f"learning/{role}_grad_share", 0.0) for role in ("agent", "designer")]
        assert sum(shares) == pytest.approx(1.0)
        assert (shares[1] > 0) == (row["learning/designer_sequences"] > 0)
        assert row["learning/ratio"] == pytest.approx(1.0, abs=1e-3)
        assert row["learning/logprob_mismatch_max"] < 1e-3


def test_the_run_directory_holds_all_of_an_environment(trained: Trained, run_path: Path) -> None:
    with PoolReader.open(run_path / "pool.sqlite") as pool:
        for environment in pool.environments(1):
            attempt = pool.attempt_of(environment.id)
            assert [gate.gate for gate in attempt.gates][-2:] == ["novel", "hint-safe"]
            name = environment.class_name.removesuffix("Env").lower()
            assert f"The {name} is kept in the harbour." in pool.document(environment.document_id).text
            assert {(m.iteration, m.arm) for m in pool.measures(environment.id)} == {
                (2, Arm.PLAIN),
                (2, Arm.HINTED),
                (3, Arm.PLAIN),
            }


def test_every_metric_of_the_glossary_is_logged_when_there_is_something_to_log(trained: Trained) -> None:
    logged = {name for row in trained.rows for name in row} - {"iteration"}
    assert logged <= set(METRICS)
    only_then = {"learning/kl", "time/evaluation_s", "agent/calls", "agent/malformed_calls", "agent/refused_calls"}
    asked_for = ("heldout/", "environments/faults/", "endpoint/")
    missing = {name for name in METRICS if not name.startswith(asked_for)} - logged
    assert missing == only_then


class Exam:
    """Held-out evaluation that notes when it was taken."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    async def __call__(self, iterations: int) -> Mapping[str, float]:
        self.taken.append(iterations)
        return {"heldout/in_family": iterations / 10}


def test_held_out_evaluation_comes_before_between_and_after(config: Config, tmp_path: Path) -> None:
    exam = Exam()
    every_two = config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"every": 2})})
    rows = run_once(tmp_path / "run", every_two, evaluate=exam).rows
    assert exam.taken == [0, 2, 4, 5]
    assert {row["iteration"]: row.get("heldout/in_family") for row in rows} == {
        -1: 0.0, 0: None, 1: 0.2, 2: None, 3: 0.4, 4: 0.5,
    }  # fmt: skip
    again = Exam()
    assert run_once(tmp_path / "run", every_two, evaluate=again).rows == rows
    assert again.taken == []


def test_a_run_that_goes_on_after_its_end_keeps_what_it_has(trained: Trained, config: Config, run_path: Path) -> None:
    rows = read_metrics(run_path / "metrics.jsonl")
    policy = open_policy(config)
    summary = run_once(run_path, config, policy).summary
    assert summary.first_iteration == 5 and policy.requests == []
    assert summary.policy_version == trained.summary.policy_version
    assert read_metrics(run_path / "metrics.jsonl") == rows


def test_a_changed_corpus_is_refused_on_resume(config: Config, tmp_path: Path) -> None:
    corpus = save_corpus(tmp_path / "corpus.jsonl")
    short = config.model_copy(
        update={"iterations": 1, "corpus": config.corpus.model_copy(update={"source": str(corpus)})}
    )
    run_once(tmp_path / "run", short)
    corpus.write_text(corpus.read_text() + "\n" + json.dumps({"title": "x", "text": "one more text " * 20}))
    with pytest.raises(CorpusError, match="has changed since the run began"):
        run_once(tmp_path / "run", short.model_copy(update={"iterations": 2}))


def test_a_round_without_a_single_valid_program_is_skipped_and_counted(config: Config, tmp_path: Path) -> None:
    short = config.model_copy(update={"iterations": 1})
    silent = open_policy(short, lambda prompt, params: "No.")
    row: dict[str, Any] = run_once(tmp_path / "run", short, silent).rows[0]
    assert row["designer/empty_slots"] == 3 and row["environments/played"] == 0
    assert (row["learning/skipped"], row["policy_version"]) == (1, 0)
    assert row["designer/reward"] == short.designer_reward.invalid
    assert row["learning/dead_skills"] == 1
    with RunDirectory.create_or_open(tmp_path / "run", short) as run, Pool.open(run.pool) as pool:
        assert pool.last_iteration() == 0
