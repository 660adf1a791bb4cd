from __future__ import annotations

import math

import pytest
import torch

from spadework.learning.loss import PolicyLoss
from spadework.learning.objective import Objective, clipped_policy_gradient

SETTINGS = PolicyLoss(clip_low=0.2, clip_high=0.28)


def objective(ratio: float, advantage: float, weight: float = 0.5) -> tuple[Objective, float]:
    """The objective of one token and the gradient of its log-probability."""
    logprob = torch.tensor([math.log(ratio) - 1.0], requires_grad=True)
    old, advantages, weights = torch.tensor([-1.0]), torch.tensor([advantage]), torch.tensor([weight])
    found = clipped_policy_gradient(logprob, old, advantages, weights, SETTINGS)
    found.loss.backward()
    return found, float(logprob.grad)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient", "clipped"),
    [
        # On policy: -w * A, gradient -w * r * A.
        (1.0, 2.0, -1.0, -1.0, 0),
        (1.0, -2.0, 1.0, 1.0, 0),
        # Inside the clip.
        (1.2, 2.0, -1.2, -1.2, 0),
        (0.9, -2.0, 0.9, 0.9, 0),
        # Already moved far enough: worth 1.28 * A or 0.8 * A, no gradient.
        (1.5, 2.0, -1.28, 0.0, 1),
        (0.5, -2.0, 0.8, 0.0, 1),
        # Moved the wrong way: the unclipped term is the smaller gain, full gradient.
        (0.5, 2.0, -0.5, -0.5, 0),
        (1.5, -2.0, 1.5, 1.5, 0),
        # The sides differ: 1.25 is inside, 0.75 outside.
        (1.25, 2.0, -1.25, -1.25, 0),
        (0.75, -2.0, 0.8, 0.0, 1),
    ],
)
def test_loss_gradient_and_clip_of_one_token(
    ratio: float, advantage: float, loss: float, gradient: float, clipped: int
) -> None:
    found, slope = objective(ratio, advantage)
    assert float(found.loss.detach()) == pytest.approx(loss, rel=1e-5)
    assert slope == pytest.approx(gradient, rel=1e-5, abs=1e-7)
    assert found.clipped == clipped


def test_tokens_are_summed_with_their_weights() -> None:
    ratios, advantages = torch.tensor([1.0, 2.0, 0.5]), torch.tensor([1.0, 1.0, -1.0])
    weights = torch.tensor([0.25, 0.5, 1.0])
    found = clipped_policy_gradient(ratios.log(), torch.zeros(3), advantages, weights, SETTINGS)
    # -(0.25 * 1 + 0.5 * 1.28 - 1.0 * 0.8)
    assert float(found.loss) == pytest.approx(-0.09, abs=1e-6)
    assert found.clipped == 2


def test_a_wild_log_ratio_gives_a_finite_loss() -> None:
    found = clipped_policy_gradient(
        torch.tensor([0.0]), torch.tensor([-3000.0]), torch.tensor([-1.0]), torch.tensor([1.0]), SETTINGS
    )
    assert math.isfinite(float(found.loss))
