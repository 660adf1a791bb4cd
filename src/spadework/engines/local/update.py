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
"""Elements (tokens times vocabulary) of one table of logits, where the vocabulary allows enough tokens in one."""
LOGIT_TOKENS = 128
"""Tokens of one table of logits at least: each costs a pass over the output layer's gradient."""


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
    """Data sorted by length (longest first, then by place), as many per batch as fit the budget with padding.

    The last weighted token of a datum and what follows it are no input: nothing that counts depends on them.
    """
    inputs = [max(t for t, weight in enumerate(datum.weights_T) if weight) for datum in data]
    order = sorted(range(len(data)), key=lambda index: (-inputs[index], index))
    at = 0
    while at < len(order):
        width = inputs[order[at]]
        rows = max(1, token_budget // width)
        yield _pad([(index, data[index]) for index in order[at : at + rows]], width, device)
        at += rows


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
            hidden_NE = _weighted_hidden(model, batch)
            found.put(
                batch, torch.cat([_logprobs(model, hidden_NE[part], batch, part) for part in _parts(model, batch)])
            )
    return found.rows()


def backward(model: Model, data: Sequence[Datum], token_budget: int, settings: PolicyLoss) -> Gradient:
    """Add the gradient of the summed loss to the parameters' ``grad``.

    The loss is a sum over tokens, so each chunk of logits is differentiated down to its hidden states at once and
    freed; then the decoder is differentiated from all of them together.
    """
    found = _Rows(data)
    loss, clipped, tokens = 0.0, 0, 0
    for batch in micro_batches(data, token_budget, model.device):
        hidden_NE = _weighted_hidden(model, batch)
        logprobs: list[Tensor] = []
        gradients: list[Tensor] = []
        for part in _parts(model, batch):
            leaf_NE = hidden_NE[part].detach().requires_grad_()
            logprobs_N = _logprobs(model, leaf_NE, batch, part)
            objective = clipped_policy_gradient(
                logprobs_N, batch.old_N[part], batch.advantages_N[part], batch.weights_N[part], settings
            )
            objective.loss.backward()  # type: ignore[no-untyped-call]
            logprobs.append(logprobs_N.detach())
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


def _logprobs(model: Model, hidden_NE: Tensor, batch: MicroBatch, part: slice) -> Tensor:
    logits_NV = model.logits(hidden_NE) / batch.temperatures_N[part, None]
    target_N = logits_NV.gather(1, batch.targets_N[part, None])[:, 0]
    return target_N - logits_NV.logsumexp(-1)


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
