"""Drawing tokens: a row's tokens depend on its seed and its logits, never on the rows beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

BLOCK = 64
"""Uniforms drawn at once per row. The stream of a row does not depend on it."""
MAX_ELEMENTS = 1 << 23
"""Elements (rows times vocabulary) of one float64 distribution table."""


class UniformStreams:
    """One stream of uniform numbers in [0, 1) per row, from a Philox generator keyed by the row's seed.

    Draw t of a row is number t of its stream.
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self._generators = [np.random.Generator(np.random.Philox(key=seed)) for seed in seeds]
        self._block: npt.NDArray[np.float64] = np.empty((0, 0))
        self._block_number = -1

    def at(self, draw: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Number ``draw`` of the streams of ``rows``. Draws must be asked for in ascending order."""
        number, offset = divmod(draw, BLOCK)
        while self._block_number < number:
            self._block = np.stack([generator.random(BLOCK) for generator in self._generators])
            self._block_number += 1
        uniforms: npt.NDArray[np.float64] = self._block[rows, offset]
        return uniforms


@dataclass(frozen=True)
class Drawn:
    """``logprobs_B`` are those of the distribution that was drawn from; of temperature 1 for greedy rows."""

    tokens_B: Tensor
    logprobs_B: Tensor


def draw(logits_BV: Tensor, temperatures_B: Tensor, uniforms_B: Tensor) -> Drawn:
    """One token per row by the inverse of the cumulative distribution (float64) at the row's uniform number.

    Temperature 0 takes the most probable token (the first of equals). Raises ValueError for logits that are not finite.
    """
    if logits_BV.device.type == "mps":  # it has no float64
        logits_BV = logits_BV.cpu()
    temperatures_B, uniforms_B = temperatures_B.to(logits_BV.device), uniforms_B.to(logits_BV.device)
    step = max(1, MAX_ELEMENTS // logits_BV.shape[1])
    parts = [
        _draw(logits_BV[at : at + step], temperatures_B[at : at + step], uniforms_B[at : at + step])
        for at in range(0, logits_BV.shape[0], step)
    ]
    return Drawn(torch.cat([part.tokens_B for part in parts]), torch.cat([part.logprobs_B for part in parts]))


def _draw(logits_BV: Tensor, temperatures_B: Tensor, uniforms_B: Tensor) -> Drawn:
    greedy_B = temperatures_B == 0
    divisors_B1 = torch.where(greedy_B, 1.0, temperatures_B)[:, None].to(logits_BV.dtype)
    logprobs_BV = (logits_BV / divisors_B1).log_softmax(-1)
    cumulative_BV = logprobs_BV.exp().cumsum(-1, dtype=torch.float64)
    total_B = cumulative_BV[:, -1]
    if not bool(torch.isfinite(total_B).all()):
        raise ValueError("the model's logits are not finite: its weights are damaged; go back to an earlier checkpoint")
    # Rounding may carry u * total up to total itself, beyond the last token.
    targets_B = torch.minimum(uniforms_B * total_B, torch.nextafter(total_B, torch.zeros_like(total_B)))
    tokens_B = torch.searchsorted(cumulative_BV, targets_B[:, None], right=True)[:, 0]
    if bool(greedy_B.any()):
        tokens_B = torch.where(greedy_B, logits_BV.argmax(-1), tokens_B)
    return Drawn(tokens_B, logprobs_BV.gather(1, tokens_B[:, None])[:, 0])
