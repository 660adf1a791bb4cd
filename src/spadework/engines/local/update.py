"""Scoring and gradients: padded micro-batches in a fixed order, log-probabilities of the weighted tokens only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from spadework.engines.base import Datum
from spadework.engines.local.model import Model
from spadework.learning.loss import PolicyLoss
from spadework.learning.objective import Objective, clipped_policy_gradient

LOGIT_ELEMENTS = 1 << 22
"""Elements (tokens times vocabulary) of one table of logits, where the vocabulary allows enough tokens in one."""
LOGIT_TOKENS = 128
"""Tokens of one table of logits at least: each costs a pass over the output layer's gradient."""
MICRO_BATCH_COST = 256
"""What one more micro-batch costs, in token positions that could be computed in the same time."""


@dataclass(frozen=True)
class MicroBatch:
    """Some of the data's input tokens, padded on the right (a row's T inputs are followed by the target of the last).

    The N weighted tokens are listed row by row: ``flat_N`` is the position (in the flattened batch) whose hidden state
    predicts each. ``index_B`` says which datum a row is.
    """

    index_B: tuple[int, ...]
    ids_BT: Tensor
    flat_N: Tensor
    counts_B: tuple[int, ...]
    targets_N: Tensor
    weights_N: Tensor
    old_N: Tensor
    advantages_N: Tensor
    temperatures_N: Tensor


def micro_batches(data: Sequence[Datum], token_budget: int, device: torch.device) -> Iterator[MicroBatch]:
    """Data sorted by length (longest first, then by place) and cut so that little of the work is padding.

    The last weighted token of a datum and what follows it are no input: nothing that counts depends on them.
    """
    inputs = [max(t for t, weight in enumerate(datum.weights_T) if weight) for datum in data]
    order = sorted(range(len(data)), key=lambda index: (-inputs[index], index))
    for part in cuts([inputs[index] for index in order], token_budget):
        yield _pad([(index, data[index]) for index in order[part]], inputs[order[part.start]], device)


def cuts(lengths: Sequence[int], token_budget: int) -> list[slice]:
    """Cut falling lengths so that the positions computed, padding included, and the batches' own costs are fewest.

    A batch has at most ``token_budget`` positions; a sequence that is longer has one of its own.
    """
    costs, firsts = [0], [0]
    for stop in range(1, len(lengths) + 1):
        best, first = costs[stop - 1] + lengths[stop - 1], stop - 1
        for start in range(stop - 2, -1, -1):
            positions = lengths[start] * (stop - start)
            if positions > token_budget:
                break
            if costs[start] + positions <= best:
                best, first = costs[start] + positions, start
        costs.append(best + MICRO_BATCH_COST)
        firsts.append(first)
    found, stop = [], len(lengths)
    while stop:
        found.append(slice(firsts[stop], stop))
        stop = firsts[stop]
    return found[::-1]


def _pad(rows: Sequence[tuple[int, Datum]], width: int, device: torch.device) -> MicroBatch:
    def padded(name: str, kind: type[np.int64] | type[np.float32]) -> npt.NDArray[Any]:
        out = np.zeros((len(rows), width + 1), dtype=kind)
        for row, (_, datum) in enumerate(rows):
            values = getattr(datum, name)[: width + 1]
            out[row, : len(values)] = values
        return out

    def tensor(values: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(device)

    ids_BT, weights_BT = padded("token_ids_T", np.int64), padded("weights_T", np.float32)
    weighted = weights_BT != 0
    row_N, column_N = np.nonzero(weighted)
    temperature_B = np.array([datum.temperature for _, datum in rows], dtype=np.float32)
    return MicroBatch(
        index_B=tuple(index for index, _ in rows),
        ids_BT=tensor(ids_BT[:, :width]),
        flat_N=tensor(row_N * width + column_N - 1),
        counts_B=tuple(weighted.sum(1).tolist()),
        targets_N=tensor(ids_BT[weighted]),
        weights_N=tensor(weights_BT[weighted]),
        old_N=tensor(padded("logprobs_T", np.float32)[weighted]),
        advantages_N=tensor(padded("advantages_T", np.float32)[weighted]),
        temperatures_N=tensor(temperature_B[row_N]),
    )


@dataclass(frozen=True)
class Gradient:
    """What `backward` measured; the gradient itself is left on the parameters."""

    loss: float
    logprobs: tuple[tuple[float, ...], ...]
    clipped_share: float


def score(model: Model, data: Sequence[Datum], token_budget: int) -> tuple[tuple[float, ...], ...]:
    """Per datum, the log-probability of each weighted token at its temperature (0 elsewhere)."""
    found = _Rows(data)
    with torch.inference_mode():
        for batch in micro_batches(data, token_budget, model.device):
            with model.last_layer_at(batch.flat_N):
                hidden_NE = _weighted_hidden(model, batch)
            logprobs = [_shares(model.logits(hidden_NE[part]), batch, part)[0] for part in _parts(model, batch)]
            found.put(batch, torch.cat(logprobs))
    return found.rows()


def backward(model: Model, data: Sequence[Datum], token_budget: int, settings: PolicyLoss) -> Gradient:
    """Add the gradient of the summed loss to the parameters' ``grad``.

    The loss is a sum over tokens, so each table of logits is differentiated down to its hidden states at once and
    freed; then the decoder is differentiated from all of them together.
    """
    found = _Rows(data)
    loss, clipped, tokens = 0.0, 0, 0
    for batch in micro_batches(data, token_budget, model.device):
        with model.last_layer_at(batch.flat_N):
            hidden_NE = _weighted_hidden(model, batch)
            logprobs: list[Tensor] = []
            gradients: list[Tensor] = []
            for part in _parts(model, batch):
                leaf_NE = hidden_NE[part].detach().requires_grad_()
                objective, logprobs_N = _differentiate(model.logits(leaf_NE), batch, part, settings)
                logprobs.append(logprobs_N)
                assert leaf_NE.grad is not None
                gradients.append(leaf_NE.grad)
                loss += float(objective.loss.detach())
                clipped += objective.clipped
            hidden_NE.backward(torch.cat(gradients))  # type: ignore[no-untyped-call]
        found.put(batch, torch.cat(logprobs))
        tokens += len(batch.targets_N)
    return Gradient(loss, found.rows(), clipped / tokens)


def _weighted_hidden(model: Model, batch: MicroBatch) -> Tensor:
    positions_BT = torch.arange(batch.ids_BT.shape[1], device=model.device).expand_as(batch.ids_BT)
    hidden_BTE = model.hidden(batch.ids_BT, positions_BT)
    return hidden_BTE.flatten(0, 1).index_select(0, batch.flat_N)


def _parts(model: Model, batch: MicroBatch) -> list[slice]:
    """The weighted tokens in parts whose logits fit one table."""
    step = max(LOGIT_TOKENS, LOGIT_ELEMENTS // model.vocabulary)
    return [slice(first, first + step) for first in range(0, len(batch.targets_N), step)]


def _differentiate(logits_NV: Tensor, batch: MicroBatch, part: slice, settings: PolicyLoss) -> tuple[Objective, Tensor]:
    """Carry the loss of a part back through its logits, whose memory is used up; loss and log-probabilities."""
    table_NV = logits_NV.detach()
    logprobs_N, sums_N = _shares(table_NV, batch, part)
    logprobs_N.requires_grad_()
    objective = clipped_policy_gradient(
        logprobs_N, batch.old_N[part], batch.advantages_N[part], batch.weights_N[part], settings
    )
    (slope_N,) = torch.autograd.grad(objective.loss, logprobs_N)
    logits_NV.backward(_gradient(table_NV, sums_N, slope_N, batch, part))  # type: ignore[no-untyped-call]
    return objective, logprobs_N.detach()


def _shares(logits_NV: Tensor, batch: MicroBatch, part: slice) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the targets. The logits become every token's share of the sum that is returned with them."""
    logits_NV.div_(batch.temperatures_N[part, None])
    logits_NV.sub_(logits_NV.amax(1, keepdim=True))
    target_N = logits_NV.gather(1, batch.targets_N[part, None])[:, 0]
    sums_N = logits_NV.exp_().sum(1)
    return target_N - sums_N.log(), sums_N


def _gradient(shares_NV: Tensor, sums_N: Tensor, slope_N: Tensor, batch: MicroBatch, part: slice) -> Tensor:
    """The gradient by the logits, in the place of the shares, where ``slope_N`` is that by the log-probabilities.

    A log-probability rises with its own logit by 1 and falls with every logit by its token's probability, all over the
    temperature.
    """
    slope_N = slope_N / batch.temperatures_N[part]
    shares_NV.mul_((-slope_N / sums_N)[:, None])
    return shares_NV.scatter_add_(1, batch.targets_N[part, None], slope_N[:, None])


class _Rows:
    """Collects log-probabilities of weighted tokens into full rows in the order of the data."""

    def __init__(self, data: Sequence[Datum]) -> None:
        self._data = data
        self._weighted: list[list[float]] = [[] for _ in data]

    def put(self, batch: MicroBatch, logprobs_N: Tensor) -> None:
        values = logprobs_N.tolist()
        first = 0
        for index, count in zip(batch.index_B, batch.counts_B, strict=True):
            self._weighted[index] = values[first : first + count]
            first += count

    def rows(self) -> tuple[tuple[float, ...], ...]:
        return tuple(_spread(datum.weights_T, found) for datum, found in zip(self._data, self._weighted, strict=True))


def _spread(weights_T: Sequence[float], found: list[float]) -> tuple[float, ...]:
    values = iter(found)
    return tuple(next(values) if weight else 0.0 for weight in weights_T)
