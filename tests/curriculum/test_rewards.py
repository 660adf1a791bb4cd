"""Every designer reward against numbers worked out by hand."""

import json
from math import exp, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spadework.config import DesignerRewardConfig
from spadework.curriculum.averages import Averages, SkillAverages
from spadework.curriculum.estimates import NothingMeasured, estimate
from spadework.curriculum.rewards import (
    REWARDS,
    Window,
    designer_reward,
    hint_regret,
    plateau,
    updated_averages,
    win_rate,
)

NO_AVERAGES = SkillAverages()


def returns(*values: float, first_seed: int = 0) -> dict[int, float]:
    return {first_seed + index: value for index, value in enumerate(values)}


def window(*plain: dict[int, float], hinted: dict[int, float] | None = None) -> Window:
    return Window("logical deduction", plain, hinted or {})


def value(kind: str, measured: Window, averages: SkillAverages = NO_AVERAGES, **settings: float) -> float:
    return designer_reward(DesignerRewardConfig(kind=kind, **settings), measured, averages).value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(0.0, 0.0), (0.15, 0.0), (0.275, 0.5), (0.4, 1.0), (0.5, 1.0), (0.6, 1.0), (0.65, 0.8), (0.85, 0.0), (1.0, 0.0)],
)
def test_the_plateau_falls_off_linearly_on_both_sides(rate: float, expected: float) -> None:
    assert plateau(rate, 0.4, 0.6, 0.25) == pytest.approx(expected)


def test_the_win_rate_takes_every_plain_play_of_the_window() -> None:
    # Wins: 1 of 4, then 2 of 2; a negative return is no win and a partial one is.
    rate = win_rate(window(returns(1, 0, -1, 0), returns(1, 0.2)))
    assert (rate.mean, rate.count) == (0.5, 6)
    # Variance of three ones in six: 6 * 0.25 / 5 = 0.3.
    assert rate.stderr == pytest.approx(sqrt(0.3 / 6))


def test_regret_pairs_the_arms_by_seed() -> None:
    measured = window({1: 0.0, 2: 1.0, 3: 0.0, 4: 1.0}, {5: 0.0}, hinted={2: 1.0, 1: 1.0, 3: 0.0, 9: -1.0})
    # Seeds 1, 2, 3: differences 1, 0, 0. Seeds 4 and 9 have no partner.
    regret = hint_regret(measured)
    assert (regret.mean, regret.count) == (pytest.approx(1 / 3), 3)
    # Squares (4 + 1 + 1) / 9 over 2, over 3.
    assert regret.stderr == pytest.approx(1 / 3)


def test_blend_by_hand() -> None:
    # Win rate 5/16: plateau 1 - (0.4 - 0.3125) / 0.25 = 0.65. Regret 1/8: 0.125 / 0.15 = 5/6.
    first = returns(1, 0, 0, 0, 0, 0, 0, 0)
    later = returns(1, 1, 1, 1, 0, 0, 0, 0, first_seed=8)
    measured = window(first, later, hinted=returns(1, 1, 0, 0, 0, 0, 0, 0))
    assert value("blend", measured) == pytest.approx(0.6 * 0.65 + 0.4 * 5 / 6)
    assert value("solve-rate", measured) == pytest.approx(0.65)
    assert value("regret", measured) == 0.125


def test_the_blend_clips_regret_on_both_sides() -> None:
    plain = returns(1, 1, 0, 0)
    assert value("blend", window(plain, hinted=returns(1, 1, 1, 1))) == pytest.approx(1.0)
    assert value("blend", window(plain, hinted=returns(0, 0, 0, 0))) == pytest.approx(0.6)
    assert value("regret", window(plain, hinted=returns(0, 0, 0, 0))) == 0.0


def test_the_regret_of_the_blend_is_of_the_first_iteration_only() -> None:
    # Later plays all win: they move the win rate to 0.5, not the regret of 0.5.
    measured = window(returns(0, 0), returns(1, 1, first_seed=2), hinted=returns(0, 1))
    assert value("blend", measured) == pytest.approx(0.6 + 0.4)
    assert designer_reward(DesignerRewardConfig(), measured, NO_AVERAGES).regret == hint_regret(measured)


def test_learning_potential_by_hand() -> None:
    # Averages 0.5 and 0.2 before, mean return 0.75: fast 0.02 * 0.5 + 0.98 * 0.75 = 0.745,
    # slow 0.15 * 0.2 + 0.85 * 0.75 = 0.6675; potential 0.0775 / (2 * 0.13).
    before = SkillAverages({"logical deduction": Averages(0.5, 0.2)})
    measured = window(returns(1, 1, 1, 0))
    assert value("learning-potential", measured, before) == pytest.approx(0.0775 / 0.26)
    # Equal averages b: |mean - b| / 2, whatever the rates; mastered and hopeless look alike.
    level = SkillAverages({"logical deduction": Averages(0.5, 0.5)})
    assert value("learning-potential", window(returns(1, 1)), level) == pytest.approx(0.25)
    assert value("learning-potential", window(returns(0, 0)), level) == pytest.approx(0.25)
    assert value("learning-potential", measured, level, fast_rate=0.5, slow_rate=0.25) == pytest.approx(0.125)
    assert value("learning-potential", measured) == 0.0


def test_averages_are_updated_once_per_skill_and_round() -> None:
    config = DesignerRewardConfig()
    windows = [window(returns(1, 1)), window(returns(0, 1)), window({}), Window("spatial reasoning", (returns(0),), {})]
    # Logical deduction: the mean of 1 and 0.5.
    after = updated_averages(config, windows, SkillAverages({"logical deduction": Averages(0.5, 0.25)}))
    assert after.skills["logical deduction"].fast == pytest.approx(0.02 * 0.5 + 0.98 * 0.75)
    assert after.skills["logical deduction"].slow == pytest.approx(0.15 * 0.25 + 0.85 * 0.75)
    assert after.skills["spatial reasoning"] == Averages(0.0, 0.0)
    assert SkillAverages.from_json(json.loads(json.dumps(after.to_json()))) == after


def test_learning_progress_by_hand() -> None:
    # Means 0, 1/2, 1/2, 1 with equal weights: slope 0.3 per iteration, times 3.
    steady = window(returns(0, 0), returns(0, 1), returns(1, 0), returns(1, 1))
    assert value("learning-progress", steady) == pytest.approx(0.9)
    falling = window(returns(1, 1), returns(0, 0))
    assert value("learning-progress", falling) == pytest.approx(-1.0)
    # Weights 1, 1, 2 at times 0, 1, 2 with means 0, 0, 1: middle 5/4, mean 1/2;
    # sum w (t - 5/4)(m - 1/2) = 5/8 + 1/8 + 3/4 = 3/2; sum w (t - 5/4)^2 = 25/16 + 1/16 + 18/16 = 11/4; times 2.
    uneven = window(returns(0), returns(0), returns(1, 1))
    assert value("learning-progress", uneven) == pytest.approx(2 * 1.5 / 2.75)
    # An iteration without plays keeps its place in time.
    assert value("learning-progress", window(returns(0), {}, returns(1))) == pytest.approx(1.0)


def test_variance_by_hand() -> None:
    assert value("variance", window(returns(1, 0), returns(1, 0))) == 1.0
    # Three of four: variance 3/16, distance 1/16.
    assert value("variance", window(returns(1, 1, 1, 0))) == pytest.approx(exp(-(1 / 256) / 0.02))
    assert value("variance", window(returns(1, 1, 1, 0))) == pytest.approx(0.823, abs=5e-4)
    assert value("variance", window(returns(0, 0))) == pytest.approx(0.044, abs=5e-4)


@pytest.mark.parametrize("kind", sorted(REWARDS))
def test_nothing_measured_is_not_a_reward_of_zero(kind: str) -> None:
    with pytest.raises(NothingMeasured):
        value(kind, window({}, {}))


def test_rewards_that_need_more_than_there_is_say_so() -> None:
    with pytest.raises(NothingMeasured, match="no seed was played in both arms"):
        value("blend", window(returns(1), hinted=returns(1, first_seed=7)))
    with pytest.raises(NothingMeasured, match="plays in two iterations"):
        value("learning-progress", window(returns(1), {}))
    alone = designer_reward(DesignerRewardConfig(kind="solve-rate"), window(returns(1, 0)), NO_AVERAGES)
    assert (alone.value, alone.regret) == (1.0, None)


def test_every_configured_kind_has_a_function() -> None:
    kinds = DesignerRewardConfig.model_json_schema()["properties"]["kind"]["enum"]
    assert sorted(kinds) == sorted(REWARDS)
    assert all(function.__doc__ for function in REWARDS.values())


def test_an_estimate_knows_its_standard_error() -> None:
    assert estimate([1.0]).stderr is None
    assert estimate([0.0, 1.0, 0.0, 1.0]).stderr == pytest.approx(sqrt(1 / 12))
    with pytest.raises(NothingMeasured):
        estimate([])


arm = st.dictionaries(st.integers(0, 8), st.floats(-1, 1), min_size=1, max_size=8)


@settings(deadline=None)
@given(arm, arm, st.lists(arm, max_size=3))
def test_the_blend_stays_between_zero_and_one(
    plain: dict[int, float], hinted: dict[int, float], later: list[dict[int, float]]
) -> None:
    measured = window(plain, *later, hinted={**hinted, **dict.fromkeys(plain, 0.5)})
    assert 0.0 <= value("blend", measured) <= 1.0
