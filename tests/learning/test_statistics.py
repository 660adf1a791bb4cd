from __future__ import annotations

import math

import pytest

from spadework.engines.base import Datum
from spadework.learning.statistics import logprob_gap

DATA = (
    Datum((1, 2, 3), (0.0, 0.5, 0.5), (0.0, -1.0, -2.0), (0.0, 1.0, 1.0)),
    Datum((1, 2), (0.0, 1.0), (0.0, -1.0), (0.0, 1.0)),
)


def test_gap_by_hand() -> None:
    found = logprob_gap(DATA, [(9.0, -0.9, -1.7), (9.0, -1.2)])
    # gaps 0.1, 0.3, -0.2; the first tokens are not trained and do not count
    assert found.tokens == 3
    assert found.mean_abs == pytest.approx(0.2)
    assert found.max_abs == pytest.approx(0.3)
    assert found.sequence_max_abs == pytest.approx(0.4)
    assert found.ratio_mean == pytest.approx((math.exp(0.1) + math.exp(0.3) + math.exp(-0.2)) / 3)
    assert found.kl == pytest.approx((math.exp(0.1) + math.exp(0.3) + math.exp(-0.2)) / 3 - 1 - 0.2 / 3)


def test_equal_policies_have_ratio_one_and_no_divergence() -> None:
    found = logprob_gap(DATA, [datum.logprobs_T for datum in DATA])
    assert (found.ratio_mean, found.kl, found.max_abs) == (1.0, 0.0, 0.0)


def test_one_wild_token_leaves_the_numbers_finite() -> None:
    found = logprob_gap(DATA, [(0.0, 4000.0, -2.0), (0.0, -1.0)])
    assert math.isfinite(found.ratio_mean) and math.isfinite(found.kl)


def test_nothing_trained_is_an_error_not_a_zero() -> None:
    with pytest.raises(ValueError, match="no trained tokens"):
        logprob_gap([], [])
