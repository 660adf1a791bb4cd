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
from spadework.learning.objective import clipped_policy_gradient

LOGIT_ELEMENTS = 1 << 22
"""Elements (tokens times vocabulary) of one table of logits."""


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


def micro_batches(data: Sequence[Datum], token_budget: int) -> Iterator[MicroBatch]:
    """Data sorted by length (longest first, then by place), as many per batch as fit the budget with padding.

    The last weighted token of a datum and what follows it are no input: nothing that counts depends on them.
    """
    inputs = [max(t for t, weight in enumerate(datum.weights_T) if weight) for datum in data]
    order = sorted(range(len(data)), key=lambda index: (-inputs[index], index))
    at = 0
    while at < len(order):
        width = inputs[order[at]]
        rows = max(1, token_budget // width)
        yield _pad([(index, data[index]) for index in order[at : at + rows]], width)
        at += rows


def _pad(rows: Sequence[tuple[int, Datum]], width: int) -> MicroBatch:
    def padded(name: str, kind: type[np.int64] | type[np.float32]) -> npt.NDArray[Any]:
        out = np.zeros((len(rows), width + 1), dtype=kind)
        for row, (_, datum) in enumerate(rows):
            values = getattr(datum, name)[: width + 1]
            out[row, : len(values)] = values
        return out

    ids_BT, weights_BT = padded("token_ids_T", np.int64), padded("weights_T", np.float32)
    weighted = weights_BT != 0
    row_N, column_N = np.nonzero(weighted)
    temperature_B = np.array([datum.temperature for _, datum in rows], dtype=np.float32)
    return MicroBatch(
        index_B=tuple(index for index, _ in rows),
        ids_BT=torch.from_numpy(ids_BT[:, :width]),
        flat_N=torch.from_numpy(row_N * width + column_N - 1),
        counts_B=tuple(weighted.sum(1).tolist()),
        targets_N=torch.from_numpy(ids_BT[weighted]),
        weights_N=torch.from_numpy(weights_BT[weighted]),
        old_N=torch.from_numpy(padded("logprobs_T", np.float32)[weighted]),
        advantages_N=torch.from_numpy(padded("advantages_T", np.float32)[weighted]),
        temperatures_N=torch.from_numpy(temperature_B[row_N]),
    )


@dataclass(frozen=True)
class Gradient:
    """What `backward` measured; the gradient itself is left on the parameters."""

    loss: float
    logprobs: tuple[tuple[float, ...], ...]
    clipped_share: float


def score(model: Model, data: Sequence[Datum], token_budget: int) -> tuple[tuple[float, ...], ...]:
    """Per datum, the log-probability of each weighted token at its temperature (0 elsewhere)."""
    found = _Logprobs(data)
    with torch.inference_mode():
        for batch in micro_batches(data, token_budget):
            hidden_NE = _weighted_hidden(model, batch)
            chunks = [logprobs_N for _, logprobs_N in _logprob_chunks(model, hidden_NE, batch)]
            found.put(batch, torch.cat(chunks))
    return found.rows()


def backward(model: Model, data: Sequence[Datum], token_budget: int, settings: PolicyLoss) -> Gradient:
    """Add the gradient of the summed loss to the parameters' ``grad``.

    The loss is a sum over tokens, so each chunk of logits is differentiated down to its hidden states at once and
    freed; then the decoder is differentiated from all of them together.
    """
    found = _Logprobs(data)
    loss, clipped, tokens = 0.0, 0, 0
    for batch in micro_batches(data, token_budget):
        hidden_NE = _weighted_hidden(model, batch)
        leaf_NE = hidden_NE.detach().requires_grad_()
        logprobs: list[Tensor] = []
        for part, logprobs_N in _logprob_chunks(model, leaf_NE, batch):
            objective = clipped_policy_gradient(
                logprobs_N, batch.old_N[part], batch.advantages_N[part], batch.weights_N[part], settings
            )
            objective.loss.backward()  # type: ignore[no-untyped-call]
            logprobs.append(logprobs_N.detach())
            loss += float(objective.loss.detach())
            clipped += objective.clipped
        hidden_NE.backward(leaf_NE.grad)  # type: ignore[no-untyped-call]
        found.put(batch, torch.cat(logprobs))
        tokens += len(batch.targets_N)
    return Gradient(loss, found.rows(), clipped / tokens)


def _weighted_hidden(model: Model, batch: MicroBatch) -> Tensor:
    positions_BT = torch.arange(batch.ids_BT.shape[1]).expand_as(batch.ids_BT)
    hidden_BTE = model.hidden(batch.ids_BT, positions_BT)
    return hidden_BTE.flatten(0, 1).index_select(0, batch.flat_N)


def _logprob_chunks(model: Model, hidden_NE: Tensor, batch: MicroBatch) -> Iterator[tuple[slice, Tensor]]:
    step = max(1, LOGIT_ELEMENTS // model.vocabulary)
    for first in range(0, hidden_NE.shape[0], step):
        part = slice(first, first + step)
        logits_NV = model.logits(hidden_NE[part]) / batch.temperatures_N[part, None]
        target_N = logits_NV.gather(1, batch.targets_N[part, None])[:, 0]
        yield part, target_N - logits_NV.logsumexp(-1)


class _Logprobs:
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
