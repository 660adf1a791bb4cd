from __future__ import annotations

import math

import pytest

from spadework.learning.advantages import agent_advantages, designer_advantages


def test_one_group_of_zeros_and_ones_by_hand() -> None:
    # mean 1/4, variance (3 * 1/16 + 9/16) / 4 = 3/16, std = sqrt(3)/4: loss -1/sqrt(3), win sqrt(3)
    found = agent_advantages({"e": {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0}})
    assert found.by_member["a"] == pytest.approx(math.sqrt(3))
    assert found.by_member["b"] == pytest.approx(-1 / math.sqrt(3))
    assert found.dead == ()


def test_groups_of_4_3_and_4_have_three_means_and_signs_are_per_group() -> None:
    returns = {
        "x": {("x", 0): 1.0, ("x", 1): 1.0, ("x", 2): 0.0, ("x", 3): 0.0},
        "y": {("y", 0): 0.3, ("y", 1): 0.6, ("y", 2): 0.9},
        "z": {("z", 0): -1.0, ("z", 1): -0.5, ("z", 2): -0.5, ("z", 3): 0.0},
    }
    found = agent_advantages(returns, normalise=False).by_member
    assert found == pytest.approx(
        {
            ("x", 0): 0.5,
            ("x", 1): 0.5,
            ("x", 2): -0.5,
            ("x", 3): -0.5,
            ("y", 0): -0.3,
            ("y", 1): 0.0,
            ("y", 2): 0.3,
            ("z", 0): -0.5,
            ("z", 1): 0.0,
            ("z", 2): 0.0,
            ("z", 3): 0.5,
        }
    )


def test_a_failed_play_that_is_left_out_does_not_move_the_others() -> None:
    alone = agent_advantages({"x": {0: 1.0, 1: 0.0, 2: 0.5}, "y": {3: 0.2, 4: 0.4}}).by_member
    with_one_more = agent_advantages({"x": {0: 1.0, 1: 0.0, 2: 0.5}, "y": {3: 0.2, 4: 0.4, 5: 0.9}}).by_member
    assert [alone[m] for m in (0, 1, 2)] == [with_one_more[m] for m in (0, 1, 2)]
    # 1, 0, 0.5: mean 0.5, variance (0.25 + 0.25) / 3
    assert alone[0] == pytest.approx(0.5 / math.sqrt(0.5 / 3))


def test_groups_without_variance_are_dead_left_out_and_counted() -> None:
    found = agent_advantages({"same": {0: 0.1, 1: 0.1, 2: 0.1}, "one": {3: 1.0}, "none": {}, "live": {4: 0.0, 5: 1.0}})
    assert found.dead == ("same", "one", "none")
    assert found.by_member == pytest.approx({4: -1.0, 5: 1.0})


def test_rounding_noise_in_equal_returns_is_not_blown_up_to_advantages() -> None:
    assert agent_advantages({"e": {0: 0.1 + 0.2, 1: 0.3}}).dead == ("e",)


def test_designer_rewards_are_centred_per_skill_and_keep_their_scale() -> None:
    rewards = {"logic": {"a": 1.0, "b": 0.4, "c": -0.25, "d": 0.25}, "space": {"e": 0.2, "f": 0.0}}
    found = designer_advantages(rewards)
    assert found.by_member == pytest.approx({"a": 0.65, "b": 0.05, "c": -0.6, "d": -0.1, "e": 0.1, "f": -0.1})


def test_a_skill_with_a_single_attempt_is_dead() -> None:
    found = designer_advantages({"logic": {"a": 1.0}, "space": {"b": 0.5, "c": 0.0}})
    assert found.dead == ("logic",)
    assert "a" not in found.by_member


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_return_that_is_no_number_is_an_error(value: float) -> None:
    with pytest.raises(ValueError, match="left out"):
        agent_advantages({"e": {0: value, 1: 0.0}})


def test_a_play_in_two_groups_is_an_error() -> None:
    with pytest.raises(ValueError, match="two groups"):
        agent_advantages({"x": {0: 1.0, 1: 0.0}, "y": {0: 1.0}})
