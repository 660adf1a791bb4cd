from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from spadework.engines.base import Datum
from spadework.learning.batch import (
    Role,
    RoleWeights,
    TrainingSample,
    split,
    to_data,
    trained_tokens,
    truncated_importance,
    with_kl_penalty,
)


def sample(key: str, role: Role = "agent", sampled: int = 2, advantage: float = 1.0) -> TrainingSample:
    marks = (False, *([True] * sampled), False)
    return TrainingSample(
        token_ids_T=tuple(range(len(marks))),
        sampled_T=marks,
        logprobs_T=tuple(-0.5 if mark else 0.0 for mark in marks),
        advantage=advantage,
        role=role,
        temperature=0.7,
        key=key,
    )


def test_weights_are_the_role_weight_times_the_mean_over_the_roles_tokens() -> None:
    minibatch = [sample("a", sampled=3), sample("b", sampled=1), sample("d", "designer", sampled=5, advantage=-2.0)]
    first, second, designer = to_data(minibatch, RoleWeights(agent=2.0, designer=0.5))
    # 4 agent tokens share 2.0, 5 designer tokens share 0.5
    assert first.weights_T == (0.0, 0.5, 0.5, 0.5, 0.0)
    assert second.weights_T == (0.0, 0.5, 0.0)
    assert designer.weights_T == pytest.approx((0.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0))
    assert designer.advantages_T == (0.0, -2.0, -2.0, -2.0, -2.0, -2.0, 0.0)
    assert first.temperature == 0.7


def test_trained_tokens_are_the_sampled_ones() -> None:
    minibatch = [sample("a", sampled=3), sample("d", "designer", sampled=5)]
    data = to_data(minibatch, RoleWeights())
    assert trained_tokens(minibatch) == 8 == sum(weight != 0 for datum in data for weight in datum.weights_T)


def test_the_size_of_one_role_does_not_change_the_others_weights() -> None:
    few = to_data([sample("a"), sample("d", "designer")], RoleWeights())
    many = to_data([sample("a"), *(sample(f"d{i}", "designer") for i in range(50))], RoleWeights())
    assert few[0] == many[0]


def test_a_role_of_weight_zero_is_left_out() -> None:
    data = to_data([sample("a"), sample("d", "designer", sampled=4)], RoleWeights(designer=0.0))
    assert [len(datum.token_ids_T) for datum in data] == [4]


def test_minibatches_hold_every_sample_once_and_every_role_evenly() -> None:
    samples = [sample(f"a{i}") for i in range(17)] + [sample(f"d{i}", "designer") for i in range(5)]
    batches = split(samples, 3, run_seed=0, iteration=4)
    assert Counter(s.key for batch in batches for s in batch) == Counter(s.key for s in samples)
    assert sorted(map(len, batches)) == [7, 7, 8]
    assert sorted(sum(s.role == "designer" for s in batch) for batch in batches) == [1, 2, 2]


def test_minibatches_depend_on_keys_seed_and_iteration_not_on_the_order_of_samples() -> None:
    samples = [sample(f"a{i}") for i in range(30)]
    shuffled = random.Random(1).sample(samples, 30)
    assert split(samples, 2, 0, 1) == split(shuffled, 2, 0, 1)
    assert split(samples, 2, 0, 1) != split(samples, 2, 0, 2)
    assert split(samples, 2, 0, 1) != split(samples, 2, 1, 1)


def test_no_minibatch_is_empty() -> None:
    assert [len(batch) for batch in split([sample("a"), sample("d", "designer")], 5, 0, 0)] == [1, 1]
    assert split([], 2, 0, 0) == ()


def test_a_key_that_occurs_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="same key"):
        split([sample("a"), sample("a")], 2, 0, 0)


def datum(logprobs: tuple[float, ...], advantage: float) -> Datum:
    return Datum((7, 8, 9), (0.0, 0.5, 0.5), logprobs, (0.0, advantage, advantage))


def test_truncated_importance_weights_by_hand() -> None:
    # ratios exp(-1.0 + 1.5) = 1.6487 and exp(-0.5 + 3.0) = 12.18, cut to 2
    found = truncated_importance(datum((0.0, -1.5, -3.0), advantage=-0.5), (0.0, -1.0, -0.5), cap=2.0)
    assert found.advantages_T == pytest.approx((0.0, -0.5 * math.exp(0.5), -1.0))
    assert found.logprobs_T == (0.0, -1.0, -0.5)
    assert found.weights_T == (0.0, 0.5, 0.5)


def test_importance_weights_of_a_wild_difference_stay_finite() -> None:
    found = truncated_importance(datum((0.0, -5000.0, -1.0), advantage=1.0), (0.0, -1.0, -5000.0), cap=2.0)
    assert found.advantages_T == (0.0, 2.0, 0.0)


def test_kl_penalty_by_hand() -> None:
    # token 1: 1 - 0.1 * (-1 + 3) = 0.8; token 2: 1 - 0.1 * (-2 + 1) = 1.1
    found = with_kl_penalty(datum((0.0, -1.0, -2.0), advantage=1.0), (0.0, -1.0, -2.0), (0.0, -3.0, -1.0), 0.1)
    assert found.advantages_T == pytest.approx((0.0, 0.8, 1.1))


def test_a_sample_that_marks_its_first_token_or_none_is_refused() -> None:
    for marks in ((True, True), (False, False)):
        with pytest.raises(ValueError, match="sample k"):
            TrainingSample((1, 2), marks, (0.0, 0.0), 1.0, "agent", 1.0, "k")
