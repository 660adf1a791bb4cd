"""What the designer is shown of earlier environments."""

from pathlib import Path

import pytest

from spadework.config import MemoryConfig
from spadework.curriculum.memory import Memory, select_memory
from spadework.curriculum.zones import Zone
from spadework.roles.episode import Arm, Episode, EpisodeEnd, Turn
from spadework.sandbox.outcomes import Outcome
from spadework.store.pool import Pool
from spadework.store.records import EnvironmentRecord, EpisodeRecord, IterationRecords, Measure

SKILL = "logical deduction"
PLAYS = 16


def words(text: str) -> int:
    return len(text.split())


def environment_id(number: int) -> str:
    return f"{number:064x}"


class Played:
    """A pool that is filled one environment per iteration and round."""

    def __init__(self, path: Path) -> None:
        self.pool = Pool.open(path / "pool.sqlite")
        self.iteration = 0

    def add(
        self,
        number: int,
        plain: int,
        hinted: int,
        *,
        skill: str = SKILL,
        summary: str = "a summary",
        end: EpisodeEnd = EpisodeEnd.TERMINATED,
        turns: int = 3,
    ) -> None:
        id_, now = environment_id(number), self.iteration
        turn = Turn("see", "reply", "act", 0.0)
        plays = (Episode(id_, Arm.PLAIN, seed, end, Outcome.OK, (turn,) * turns, (), (), ()) for seed in range(PLAYS))
        environment = EnvironmentRecord(
            id_, now, now, 0, skill, "doc", f"Game{number}Env", "source", f"hint {number}", summary, f"{number}"
        )
        self.pool.write(
            IterationRecords(
                now,
                now,
                environments=(environment,),
                episodes=tuple(EpisodeRecord(now, play, 0.0) for play in plays),
                measures=(self.measure(number, Arm.PLAIN, plain), self.measure(number, Arm.HINTED, hinted)),
            )
        )
        self.iteration += 1

    def measure(self, number: int, arm: Arm, wins: int) -> Measure:
        rate = wins / PLAYS
        stderr = (rate * (1 - rate) / (PLAYS - 1)) ** 0.5
        return Measure(environment_id(number), self.iteration, self.iteration, arm, PLAYS, wins, rate, stderr)

    def select(
        self, *, slot: int = 0, attempt: int = 0, run_seed: int = 0, round_: int | None = None, **settings: object
    ) -> Memory:
        config = MemoryConfig(**settings)  # type: ignore[arg-type]
        at = self.iteration if round_ is None else round_
        return select_memory(self.pool, SKILL, at, config, run_seed, slot, attempt, words)


@pytest.fixture
def played(tmp_path: Path) -> Played:
    return Played(tmp_path)


def test_an_empty_pool_gives_an_empty_memory(played: Played) -> None:
    assert played.select() == Memory()


def test_positives_are_drawn_from_the_frontier_of_highest_regret(played: Played) -> None:
    for number in range(8):
        played.add(number, 4, 4 + number)
    for number in (20, 21):
        played.add(number, 16, 16)
        played.add(number + 10, 0, 0)
        played.add(number + 20, 4, 16, skill="spatial reasoning")
    names = {
        example.class_name
        for slot in range(40)
        for example in played.select(slot=slot, candidates=3, positives=2).positives
    }
    assert names == {"Game5Env", "Game6Env", "Game7Env"}


def test_a_positive_shows_rates_regret_hint_and_summary(played: Played) -> None:
    played.add(1, 4, 12, summary="CaveEnv: find the way out")
    (example,) = played.select().positives
    assert (example.plain_rate, example.hinted_rate, example.regret) == (0.25, 0.75, 0.5)
    assert example.text == (
        "At the frontier: won 4 of 16 plays and 12 of 16 with its hint over 16 instances, in 3.0 turns on average"
        " (the hint gained +0.50).\nCaveEnv: find the way out\nhint: hint 1"
    )


def test_negatives_say_what_made_them_too_easy_or_too_hard(played: Played) -> None:
    played.add(1, 16, 16, turns=1, summary="DoorEnv: open it")
    played.add(2, 0, 0, end=EpisodeEnd.TURN_LIMIT, turns=9, summary="VaultEnv: guess it")
    memory = played.select(negatives=2)
    texts = {example.zone: example.text for example in memory.negatives}
    assert memory.positives == ()
    assert texts[Zone.MASTERED] == (
        "Too easy: won 16 of 16 plays and 16 of 16 with its hint over 16 instances, in 1.0 turns on average; "
        "most plays were over after one action, so there was nothing to find out.\nDoorEnv: open it"
    )
    assert texts[Zone.UNSOLVABLE] == (
        "Too hard: won 0 of 16 plays and 0 of 16 with its hint over 16 instances, in 9.0 turns on average; "
        "most plays ran out of turns and not even the hint helped.\nVaultEnv: guess it"
    )


def test_of_two_negatives_one_is_too_easy_and_one_too_hard(played: Played) -> None:
    for number in range(6):
        played.add(number, 16, 16)
    played.add(9, 0, 0)
    for slot in range(10):
        zones = sorted(example.zone for example in played.select(slot=slot, negatives=2).negatives)
        assert zones == [Zone.MASTERED, Zone.UNSOLVABLE]
    assert len(played.select(negatives=4).negatives) == 4


def test_the_draw_depends_on_run_seed_round_slot_and_attempt_alone(played: Played) -> None:
    for number in range(10):
        played.add(number, 4, 12)
    first = played.select()
    assert played.select() == first
    shown = [played.select(slot=1), played.select(attempt=1), played.select(run_seed=1)]
    assert any(other != first for other in shown)


def test_rates_are_those_of_the_last_iteration(played: Played) -> None:
    played.add(1, 4, 12)
    later = Measure(environment_id(1), played.iteration, 0, Arm.PLAIN, PLAYS, PLAYS, 1.0, 0.0)
    played.pool.write(IterationRecords(played.iteration, 0, measures=(later,)))
    (example,) = played.select().positives
    assert example.plain_rate == 20 / 32
    assert example.regret == 0.5


def test_only_the_window_of_rounds_before_this_one_is_looked_at(played: Played) -> None:
    for number in range(6):
        played.add(number, 4, 12)
    ids = {example.class_name for example in played.select(round_=5, window_rounds=2, positives=9).positives}
    assert ids == {"Game3Env", "Game4Env"}


def test_whole_examples_are_left_out_to_keep_to_the_token_budget(played: Played) -> None:
    played.add(0, 4, 16, summary="long " * 200)
    for number in range(1, 5):
        played.add(number, 4, 12, summary=f"short {number}")
    played.add(5, 16, 16, summary="easy " * 60)
    for slot in range(10):
        memory = played.select(slot=slot, positives=3, negatives=1, max_tokens=100)
        assert memory.tokens == sum(words(example.text) for example in memory.positives) <= 100
        assert "Game0Env" not in [example.class_name for example in memory.positives]
        assert len(memory.positives) == 3
        assert memory.negatives == ()
    assert played.select(max_tokens=5) == Memory()


def test_memory_can_be_switched_off(played: Played) -> None:
    played.add(1, 4, 12)
    assert played.select(enabled=False) == Memory()
    assert played.select(positives=0, negatives=0) == Memory()
