"""Who earns what, by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spadework.config import Config, DesignerRewardConfig
from spadework.curriculum.averages import Averages, SkillAverages
from spadework.curriculum.measuring import measures_of
from spadework.learning.delay import PendingSample, Released
from spadework.loop.credit import DesignerCredit, credit_agent, credit_designer
from spadework.loop.plays import Plays, play_requests, play_seeds
from spadework.loop.readings import play_readings
from spadework.loop.schedule import Schedule
from spadework.roles.episode import Arm, Episode, EpisodeEnd, Turn
from spadework.roles.plays import Played
from spadework.sandbox.outcomes import FaultKind, Outcome
from spadework.store.pool import Pool
from spadework.store.records import AttemptRecord, EnvironmentRecord, EpisodeRecord, IterationRecords

ONE, TWO, THREE = "1" * 64, "2" * 64, "3" * 64
SCHEDULE = Schedule(iterations=5, round_iterations=2, evaluation_every=0, checkpoint_every=1)


def episode(id_: str, seed: int, reward: float | None, arm: Arm = Arm.PLAIN, *, host: bool = False) -> Episode:
    """A play of one turn; no reward: the environment failed it, or the host."""
    failed = reward is None
    outcome = Outcome.INFRASTRUCTURE_FAULT if host else Outcome.ENVIRONMENT_FAULT if failed else Outcome.OK
    return Episode(
        environment_id=id_,
        arm=arm,
        seed=seed,
        end=EpisodeEnd.FAULT if failed else EpisodeEnd.TERMINATED,
        outcome=outcome,
        turns=(Turn("Go.", "x", "x", reward or 0.0),),
        token_ids_T=(1, 2, 3),
        sampled_T=(False, True, True),
        logprobs_T=(0.0, -0.5, -0.25),
        fault_kind=FaultKind.EXCEPTION if failed and not host else None,
    )


def plays(*episodes: Episode) -> Plays:
    return Plays.of(Played(episodes), 0, "terminal")


def test_a_play_that_the_environment_failed_punishes_nobody_and_leaves_the_others_their_baseline() -> None:
    """Returns 1, 0, 0 and a fault: mean 1/3 and std sqrt(2)/3 of three plays, not of four."""
    group = [episode(ONE, 0, 1.0), episode(ONE, 1, 0.0), episode(ONE, 2, 0.0), episode(ONE, 3, None)]
    credit = credit_agent(plays(*group), Config())
    assert {sample.key: sample.advantage for sample in credit.samples} == pytest.approx(
        {f"agent/{ONE}/0": 2**0.5, f"agent/{ONE}/1": -(0.5**0.5), f"agent/{ONE}/2": -(0.5**0.5)}
    )


def test_hinted_plays_are_neither_trained_nor_part_of_the_baseline() -> None:
    hinted = [episode(ONE, seed, 1.0, Arm.HINTED) for seed in range(3)]
    credit = credit_agent(plays(episode(ONE, 0, 1.0), episode(ONE, 1, 0.0), *hinted), Config())
    assert [sample.advantage for sample in credit.samples] == pytest.approx([1.0, -1.0])


def test_environments_without_spread_are_dead_also_if_all_their_plays_failed() -> None:
    group = [episode(ONE, 0, 1.0), episode(ONE, 1, 1.0), episode(TWO, 0, None), episode(TWO, 1, None)]
    credit = credit_agent(plays(*group), Config())
    assert credit.samples == () and credit.dead == (ONE, TWO)


def test_the_arms_are_asked_to_play_the_same_distinct_seeds() -> None:
    environment = EnvironmentRecord(ONE, 0, 0, 0, "s", "d", "XEnv", "source", "hint", "", "f")
    requests = play_requests([environment], 3, run_seed=9, plays=16, hinted=True)
    seeds = {arm: [request.seed for request in requests if request.arm is arm] for arm in Arm}
    assert seeds[Arm.PLAIN] == seeds[Arm.HINTED] == list(play_seeds(9, ONE, 3, 16))
    assert len(set(seeds[Arm.PLAIN])) == 16
    assert {request.hint for request in requests} == {None, "hint"}
    assert not set(seeds[Arm.PLAIN]) & set(play_seeds(9, ONE, 4, 16))


def test_play_readings_by_hand() -> None:
    """ONE: plain 1, 0 and a fault, hinted 1, 1, 1; TWO: plain 1, 1, 1, hinted 1, 1 and the host failed."""
    both = [
        *(episode(ONE, seed, reward) for seed, reward in enumerate((1.0, 0.0, None))),
        *(episode(ONE, seed, 1.0, Arm.HINTED) for seed in range(3)),
        *(episode(TWO, seed, 1.0) for seed in range(3)),
        *(episode(TWO, seed, 1.0, Arm.HINTED) for seed in range(2)),
        episode(TWO, 2, None, Arm.HINTED, host=True),
    ]
    found = play_readings(plays(*both), "terminal")
    assert found["agent/plain_return"] == found["agent/plain_win_rate"] == pytest.approx(0.75)
    assert found["agent/plain_return_stderr"] == pytest.approx(0.25)
    assert found["agent/hinted_return"] == 1.0
    assert found["environments/regret"] == pytest.approx((0.5 + 0.0) / 2)
    assert found["environments/dropped_seeds"] == 2
    assert (found["environments/faults"], found["environments/faults/exception"]) == (1, 1)
    assert found["environments/infrastructure_faults"] == 1
    assert found["agent/episodes"] == 5
    assert found["agent/return_spread"] == pytest.approx((0.5 + 0.0) / 2)
    assert found["agent/thinking_ended_share"] == 0.0


def test_the_share_of_replies_whose_thinking_was_ended_by_hand() -> None:
    """Four plain replies of three episodes; one that the environment failed does not count."""
    ended, in_time = Turn("Go.", "x", "x", 0.0, thinking_ended=True), Turn("Go.", "x", "x", 0.0)
    both = [
        replace(episode(ONE, 0, 1.0), turns=(ended, in_time)),
        replace(episode(ONE, 1, 1.0), turns=(in_time,)),
        replace(episode(ONE, 2, 1.0), turns=(in_time,)),
        replace(episode(ONE, 3, None), turns=(ended,)),
    ]
    assert play_readings(plays(*both), "terminal")["agent/thinking_ended_share"] == 0.25


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool.open(tmp_path / "pool.sqlite") as opened:
        yield opened


def attempt(slot: int, environment_id: str | None) -> AttemptRecord:
    status = "accepted" if environment_id else "parse"
    return AttemptRecord(0, 0, slot, 0, "optimization", "doc", 1, 2, "reply", status, "", environment_id)


def judge(
    pool: Pool,
    made: dict[str | None, tuple[Episode, ...]],
    averages: SkillAverages | None = None,
    **config: object,
) -> DesignerCredit:
    """A round of one iteration so far: slot by slot an environment with its plays, or a rejected attempt."""
    attempts = [attempt(slot, id_) for slot, id_ in enumerate(made)]
    environments = tuple(
        EnvironmentRecord(id_, 0, 0, slot, "optimization", "doc", "XEnv", "", "", "", id_)
        for slot, id_ in enumerate(made)
        if id_ is not None
    )
    records = tuple(
        EpisodeRecord(0, one, one.turns[-1].reward if one.scored else None) for group in made.values() for one in group
    )
    pool.write(IterationRecords(0, 0, (), tuple(attempts), environments, records, measures_of(records, 0)))
    released = [
        Released(PendingSample(f"designer/0/{slot}/0", (1, 2), (False, True), (0.0, -1.0), 1.0), added=0)
        for slot in range(len(attempts))
    ]
    reward = DesignerRewardConfig(**config)  # type: ignore[arg-type]
    return credit_designer(released, pool, SCHEDULE, reward, averages or SkillAverages(), iteration=2)


def both_arms(id_: str, plain: tuple[float | None, ...], hinted: tuple[float | None, ...]) -> tuple[Episode, ...]:
    return (
        *(episode(id_, seed, reward) for seed, reward in enumerate(plain)),
        *(episode(id_, seed, reward, Arm.HINTED) for seed, reward in enumerate(hinted)),
    )


def test_designs_earn_their_blend_and_invalid_attempts_the_configured_value(pool: Pool) -> None:
    """ONE: won half, regret 0.5: 0.6 + 0.4 = 1. TWO: always won: 0. Rejected: -0.25. Centred on their mean, 0.25."""
    made = {
        ONE: both_arms(ONE, (1.0, 0.0), (1.0, 1.0)),
        TWO: both_arms(TWO, (1.0, 1.0), (1.0, 1.0)),
        None: (),
    }
    credit = judge(pool, made)
    assert credit.rewards == pytest.approx({"designer/0/0/0": 1.0, "designer/0/1/0": 0.0, "designer/0/2/0": -0.25})
    assert list(credit.valid) == ["designer/0/0/0", "designer/0/1/0"]
    assert [sample.advantage for sample in credit.samples] == pytest.approx([0.75, -0.25, -0.5])
    assert all(sample.delayed for sample in credit.samples) and credit.delays == (2, 2, 2)


def test_invalid_attempts_can_be_dropped_as_in_the_paper(pool: Pool) -> None:
    made = {ONE: both_arms(ONE, (1.0, 0.0), (1.0, 1.0)), TWO: both_arms(TWO, (1.0, 1.0), (1.0, 1.0)), None: ()}
    credit = judge(pool, made, invalid=None)
    assert [sample.advantage for sample in credit.samples] == pytest.approx([0.5, -0.5])
    assert credit.unjudged == 1


def test_the_share_of_plays_that_an_environment_failed_gives_way_to_the_value_of_an_invalid_attempt(
    pool: Pool,
) -> None:
    """ONE fails a quarter of 8 plays: 0.75 * 1 - 0.25 * 0.25. TWO fails all, THREE was failed by the host."""
    made = {
        ONE: both_arms(ONE, (1.0, 0.0, None, None), (1.0, 1.0, 1.0, 1.0)),
        TWO: both_arms(TWO, (None, None), (None, None)),
        THREE: tuple(episode(THREE, seed, None, host=True) for seed in range(2)),
    }
    credit = judge(pool, made)
    assert credit.rewards == pytest.approx({"designer/0/0/0": 0.75 - 0.0625, "designer/0/1/0": -0.25})
    assert credit.unjudged == 1


def test_a_skill_with_a_single_judged_attempt_teaches_nothing(pool: Pool) -> None:
    credit = judge(pool, {ONE: both_arms(ONE, (1.0, 0.0), (1.0, 1.0))})
    assert credit.samples == () and len(credit.dead) == 1


def test_the_averages_of_a_skill_move_after_its_round_was_judged(pool: Pool) -> None:
    """Both averages at 0; mean 1 earns |1 - 0| / 2, mean 0 earns 0; then the skill's mean 0.5 is added."""
    made = {ONE: both_arms(ONE, (1.0, 1.0), ()), TWO: both_arms(TWO, (0.0, 0.0), ())}
    before = SkillAverages({"optimization": Averages(0.0, 0.0)})
    credit = judge(pool, made, before, kind="learning-potential")
    assert credit.rewards == pytest.approx({"designer/0/0/0": 0.5, "designer/0/1/0": 0.0})
    assert credit.averages.skills["optimization"].fast == pytest.approx(0.49)
    assert credit.averages.skills["optimization"].slow == pytest.approx(0.425)
