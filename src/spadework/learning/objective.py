"""The clipped policy gradient (Schulman et al. 2017, PPO; the asymmetric clip is that of Yu et al. 2025, DAPO)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spadework.learning.loss import PolicyLoss

MAX_LOG_RATIO = 20.0
"""Log-ratios are cut to ±20, far outside every clip, so that no ratio overflows; beyond it a token has no gradient."""


@dataclass(frozen=True)
class Objective:
    """``loss`` is a scalar with gradient; ``clipped`` counts the tokens whose gradient the clip removed."""

    loss: Tensor
    clipped: int


def clipped_policy_gradient(
    logprobs_N: Tensor, old_N: Tensor, advantages_N: Tensor, weights_N: Tensor, settings: PolicyLoss
) -> Objective:
    """Sum over tokens of -w * min(r * A, clip(r, 1 - low, 1 + high) * A) with r = exp(logprob - old).

    The clip removes a token's gradient if it already moved far enough in its advantage's direction: r > 1 + high with
    A > 0, or r < 1 - low with A < 0.
    """
    ratio_N = (logprobs_N - old_N).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    low, high = 1.0 - settings.clip_low, 1.0 + settings.clip_high
    gain_N = torch.minimum(ratio_N * advantages_N, ratio_N.clamp(low, high) * advantages_N)
    clipped_N = ((advantages_N > 0) & (ratio_N > high)) | ((advantages_N < 0) & (ratio_N < low))
    return Objective(-(weights_N * gain_N).sum(), int(clipped_N.sum()))
