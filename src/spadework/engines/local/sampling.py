"""Generating replies for a batch of members: prefill of what is new, then one token per row and step.

The result of a row depends on its seed, its tokens and, in the last bits of its logits, on the shapes of the batch. The
batch is a function of the requests alone (`cohort`), so equal requests give equal bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from spadework.engines.base import SamplingParams, StopReason
from spadework.engines.local.attention import MASKED, Window
from spadework.engines.local.draws import UniformStreams, draw
from spadework.engines.local.kvcache import BatchCache, CacheShape, MemberCache
from spadework.engines.local.model import Model

PREFILL_TOKENS = 2048
"""Padded tokens of one prefill pass: large enough for full speed, small enough to stay in the processor's caches."""
DECODE_SLOTS = 64
"""Slots added at once for decoded tokens."""
COMPACT_SHARE = 0.75
"""Finished rows leave the batch once at most this share of its rows still decodes."""


@dataclass(frozen=True)
class Request:
    """What one member asks for, and the cache it has."""

    prompt_ids_T: npt.NDArray[np.int64]
    params: SamplingParams
    cache: MemberCache


@dataclass(frozen=True)
class Reply:
    token_ids_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    stop_reason: StopReason
    cache: MemberCache


class Sampler:
    """Generates with one model; holds the memory of its batches."""

    def __init__(self, model: Model, shape: CacheShape) -> None:
        self._model = model
        self._cache = BatchCache(shape)

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """One reply per request, decoded together."""
        with torch.inference_mode():
            return _Generation(self._model, self._cache, requests).run()


class _Generation:
    """One batch from prompts to replies. Rows of the batch are numbered apart from requests: `rows` maps them."""

    def __init__(self, model: Model, cache: BatchCache, requests: Sequence[Request]) -> None:
        prefixes = [request.cache.shared_prefix(request.prompt_ids_T) for request in requests]
        new = [len(request.prompt_ids_T) - prefix for request, prefix in zip(requests, prefixes, strict=True)]
        # Rows of similar length sit together, so that prefill passes carry little padding.
        self.order = sorted(range(len(requests)), key=lambda index: (new[index], prefixes[index], index))
        self.requests = [requests[index] for index in self.order]
        self.prefix_B = np.array([prefixes[index] for index in self.order])
        self.new_B = np.array([new[index] for index in self.order])
        self.budget_B = np.array([request.params.max_tokens for request in self.requests])
        self.stop_BK = _stop_table(self.requests)
        self.model, self.cache, self.device = model, cache, model.device
        self.P, self.N = int(self.prefix_B.max()), int(self.new_B.max())
        self.decode_slot = self.P + self.N
        self.slots = self.decode_slot + min(DECODE_SLOTS, int(self.budget_B.max()))
        self.tokens_BT = np.zeros((len(requests), 0), dtype=np.int64)
        self.logprobs_BT = np.zeros((len(requests), 0))
        self.length_B = np.zeros(len(requests), dtype=np.int64)
        self.stopped_B = np.zeros(len(requests), dtype=bool)
        self.replies: list[Reply | None] = [None] * len(requests)
        self.rows = np.arange(len(requests))

    def run(self) -> list[Reply]:
        self.cache.start([request.cache for request in self.requests], self.prefix_B, self.slots)
        temperatures_B = torch.tensor([request.params.temperature for request in self.requests])
        uniforms = UniformStreams([request.params.seed for request in self.requests])
        hidden_BE, mask_B11S = self._prefill(), self._mask()
        for step in range(int(self.budget_B.max())):
            uniforms_B = torch.from_numpy(uniforms.at(step, self.rows))
            drawn = draw(self.model.logits(hidden_BE), temperatures_B[self.rows], uniforms_B)
            live = self._record(step, drawn.tokens_B.cpu().numpy(), drawn.logprobs_B.cpu().numpy())
            tokens_B = drawn.tokens_B.to(self.device)
            if live.sum() <= COMPACT_SHARE * len(live):
                self._store(np.flatnonzero(~live))
                if not live.any():
                    break
                keep = self._tensor(np.flatnonzero(live))
                self.cache.keep_rows(keep)
                self.rows, tokens_B, mask_B11S = self.rows[live], tokens_B[keep], mask_B11S[keep]
            hidden_BE = self._step(step, tokens_B, mask_B11S)
        return [reply for reply in self.replies if reply is not None]

    def _prefill(self) -> Tensor:
        """Compute the new prompt tokens of all rows; the hidden state of each row's last one."""
        last: list[Tensor] = []
        first = 0
        while first < len(self.rows):
            # Lengths ascend, so the pass's width is that of its last row.
            count = 1
            while first + count < len(self.rows) and (count + 1) * self.new_B[first + count] <= PREFILL_TOKENS:
                count += 1
            rows = slice(first, first + count)
            last.append(self._prefill_pass(rows))
            first += count
        return torch.cat(last)

    def _prefill_pass(self, rows: slice) -> Tensor:
        prefix_B, new_B = self.prefix_B[rows], self.new_B[rows]
        width = int(new_B.max())
        offsets = np.minimum(np.arange(width), new_B[:, None] - 1)
        ids_BQ = np.zeros((len(new_B), width), dtype=np.int64)
        for row, request in enumerate(self.requests[rows]):
            ids_BQ[row, : new_B[row]] = request.prompt_ids_T[prefix_B[row] :]
        known = int(prefix_B.max())
        mask_B1QS = None
        if known:
            mask_B1QS = self._masked(len(new_B), 1, width, self.P + width)
            seen_BP = torch.arange(self.P, device=self.device) < self._tensor(prefix_B)[:, None]
            mask_B1QS[..., : self.P].masked_fill_(seen_BP[:, None, None], 0.0)
            mask_B1QS[..., self.P :] = self._masked(width, width).triu_(1)
        window = Window(self.cache.cache_LXBHSD[:, :, rows], self.P, mask_B1QS)
        positions_BQ = self._tensor(prefix_B[:, None] + offsets)
        hidden_BQE = self.model.hidden(self._tensor(ids_BQ), positions_BQ, window)
        return hidden_BQE[torch.arange(len(new_B), device=self.device), self._tensor(new_B - 1)]

    def _mask(self) -> Tensor:
        """What the rows may see while decoding: their prefix, their new tokens, every decoded slot."""
        slots = torch.arange(self.slots, device=self.device)
        prefix_B1, new_B1 = self._tensor(self.prefix_B)[:, None], self._tensor(self.new_B)[:, None]
        seen_BS = (slots < prefix_B1) | ((slots >= self.P) & (slots < self.P + new_B1)) | (slots >= self.decode_slot)
        return self._masked(*seen_BS.shape).masked_fill_(seen_BS, 0.0)[:, None, None]

    def _step(self, step: int, tokens_B: Tensor, mask_B11S: Tensor) -> Tensor:
        """Compute the tokens drawn in ``step``; their hidden states."""
        slot = self.decode_slot + step
        if slot >= self.cache.cache_LXBHSD.shape[4]:
            self.cache.grow(slot + DECODE_SLOTS)
        missing = slot + 1 - mask_B11S.shape[3]
        if missing > 0:
            mask_B11S = torch.nn.functional.pad(mask_B11S, (0, missing))
        positions = (self.prefix_B + self.new_B)[self.rows] + step
        # Rows that ended draw on until the batch drops them, but not beyond the last position that exists.
        positions_B = self._tensor(np.minimum(positions, self.model.max_context_tokens - 1))
        window = Window(self.cache.cache_LXBHSD, slot, mask_B11S[..., : slot + 1])
        return self.model.hidden(tokens_B[:, None], positions_B[:, None], window)[:, 0]

    def _tensor(self, values: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(values).to(self.device)

    def _masked(self, *sizes: int) -> Tensor:
        return torch.full(sizes, MASKED, device=self.device, dtype=self.model.dtype)

    def _record(
        self, step: int, tokens: npt.NDArray[np.int64], logprobs: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.bool_]:
        """Note what was drawn; which rows go on. Rows that ended but are still in the batch draw on, unheeded."""
        if step >= self.tokens_BT.shape[1]:
            room = ((0, 0), (0, DECODE_SLOTS))
            self.tokens_BT, self.logprobs_BT = np.pad(self.tokens_BT, room), np.pad(self.logprobs_BT, room)
        self.tokens_BT[self.rows, step] = tokens
        self.logprobs_BT[self.rows, step] = logprobs
        over = self.length_B[self.rows] > 0
        stopped = (self.stop_BK[self.rows] == tokens[:, None]).any(1)
        ends = ~over & (stopped | (step + 1 >= self.budget_B[self.rows]))
        self.length_B[self.rows[ends]] = step + 1
        self.stopped_B[self.rows[ends]] = stopped[ends]
        live: npt.NDArray[np.bool_] = ~(over | ends)
        return live

    def _store(self, ended: npt.NDArray[np.int64]) -> None:
        """Make the replies of rows that ended, before the batch drops them."""
        for row in ended.tolist():
            index = int(self.rows[row])
            prefix, new, length = int(self.prefix_B[index]), int(self.new_B[index]), int(self.length_B[index])
            # The last token of a reply was drawn but never computed.
            fed = self.tokens_BT[index, : length - 1]
            ranges = [(0, prefix), (self.P, self.P + new), (self.decode_slot, self.decode_slot + len(fed))]
            self.replies[self.order[index]] = Reply(
                tuple(self.tokens_BT[index, :length].tolist()),
                tuple(self.logprobs_BT[index, :length].tolist()),
                StopReason.STOP if self.stopped_B[index] else StopReason.LENGTH,
                MemberCache(
                    np.concatenate([self.requests[index].prompt_ids_T, fed]),
                    self.cache.row(row, ranges),
                ),
            )


def _stop_table(requests: Sequence[Request]) -> npt.NDArray[np.int64]:
    """Every request's stop ids, padded with -1, which is no token."""
    stops = [request.params.stop_ids for request in requests]
    table_BK = np.full((len(stops), max(1, *map(len, stops))), -1)
    for row, ids in enumerate(stops):
        table_BK[row, : len(ids)] = ids
    return table_BK
