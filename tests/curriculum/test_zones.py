"""Zones and skill rotation."""

import pytest

from spadework.config import COGNITIVE_SKILLS
from spadework.curriculum.estimates import Estimate, estimate
from spadework.curriculum.skills import skill_of_slot, skills_of_round
from spadework.curriculum.zones import Zone, zone


def share(wins: int, plays: int = 16) -> Estimate:
    return estimate([1.0] * wins + [0.0] * (plays - wins))


@pytest.mark.parametrize(
    ("plain", "hinted", "expected"),
    [
        (16, 16, Zone.MASTERED),
        (14, 16, Zone.MASTERED),
        (13, 16, Zone.FRONTIER),
        (8, 8, Zone.FRONTIER),
        (8, 0, Zone.FRONTIER),
        (3, 3, Zone.FRONTIER),
        (0, 0, Zone.UNSOLVABLE),
        (0, 2, Zone.UNSOLVABLE),  # a gap of 0.125 is below GAP
        (0, 3, Zone.FRONTIER),  # 0.1875, about twice its standard error of 0.1
        (2, 0, Zone.UNSOLVABLE),
    ],
)
def test_zones_of_sixteen_plays_per_arm(plain: int, hinted: int, expected: Zone) -> None:
    assert zone(share(plain), share(hinted)) is expected


def test_a_gap_within_noise_is_no_gap() -> None:
    # One of two: a gap of 0.5 with a standard error of 0.5.
    assert zone(share(0), share(1, plays=2)) is Zone.UNSOLVABLE
    assert zone(share(0), share(1, plays=1)) is Zone.UNSOLVABLE


def test_without_a_hinted_arm_the_plain_one_decides() -> None:
    assert [zone(share(wins), None) for wins in (0, 8, 16)] == [Zone.UNSOLVABLE, Zone.FRONTIER, Zone.MASTERED]


def test_three_of_six_skills_give_two_halves_in_turn() -> None:
    rounds = [skills_of_round(number, COGNITIVE_SKILLS, 3) for number in range(3)]
    assert rounds == [COGNITIVE_SKILLS[:3], COGNITIVE_SKILLS[3:], COGNITIVE_SKILLS[:3]]


def test_the_window_goes_around_the_end() -> None:
    assert [skills_of_round(number, "abc", 2) for number in range(3)] == [("a", "b"), ("c", "a"), ("b", "c")]
    with pytest.raises(ValueError, match="4 skills a round cannot be taken from 3"):
        skills_of_round(0, "abc", 4)


def test_slots_take_the_round_s_skills_in_turn() -> None:
    assert [skill_of_slot(slot, ("a", "b", "c")) for slot in range(6)] == ["a", "b", "c", "a", "b", "c"]
