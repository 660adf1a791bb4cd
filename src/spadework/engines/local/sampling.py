"""Generating replies for a batch of members: what is new of their prompts, then one token per row and step.

The result of a row depends on its seed, its tokens and, in the last bits of its logits, on the shapes of the batch. The
batch is a function of the requests alone (`cohort`), so equal requests give equal bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from spadework.engines.base import SamplingParams, StopReason
from spadework.engines.local.attention import MASKED, Window
from spadework.engines.local.draws import UniformStreams, draw
from spadework.engines.local.kvcache import BatchCache, CacheShape, MemberCache
from spadework.engines.local.model import Model
from spadework.engines.local.prefill import Prefill, with_shared_prefixes

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
            prompts = [request.prompt_ids_T for request in requests]
            caches = with_shared_prefixes(self._model, self._cache, prompts, [request.cache for request in requests])
            shared = [replace(request, cache=cache) for request, cache in zip(requests, caches, strict=True)]
            return _Generation(self._model, self._cache, shared).run()


class _Generation:
    """One batch from prompts to replies. Rows of the batch are numbered apart from requests: `rows` maps them."""

    def __init__(self, model: Model, cache: BatchCache, requests: Sequence[Request]) -> None:
        prompts, caches = [request.prompt_ids_T for request in requests], [request.cache for request in requests]
        self.prefill = Prefill(model, cache, prompts, caches)
        self.requests = [requests[index] for index in self.prefill.order]
        self.length_B = self.prefill.prefix_B + self.prefill.new_B
        self.budget_B = np.array([request.params.max_tokens for request in self.requests])
        self.stop_BK = _stop_table(self.requests)
        self.model, self.cache, self.device = model, cache, model.device
        self.decode_slot = self.prefill.P + self.prefill.N
        self.slots = self.decode_slot + min(DECODE_SLOTS, int(self.budget_B.max()))
        self.tokens_BT = np.zeros((len(requests), 0), dtype=np.int64)
        self.logprobs_BT = np.zeros((len(requests), 0))
        self.drawn_B = np.zeros(len(requests), dtype=np.int64)
        self.stopped_B = np.zeros(len(requests), dtype=bool)
        self.replies: list[Reply | None] = [None] * len(requests)
        self.rows = np.arange(len(requests))

    def run(self) -> list[Reply]:
        temperatures_B = torch.tensor([request.params.temperature for request in self.requests])
        uniforms = UniformStreams([request.params.seed for request in self.requests])
        hidden_BE, mask_B11S = self.prefill.compute(self.slots), self._mask()
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

    def _mask(self) -> Tensor:
        """What the rows may see while decoding: their prefix, their new tokens, every decoded slot."""
        slots = torch.arange(self.slots, device=self.device)
        prefix_B1, new_B1 = (self._tensor(sizes)[:, None] for sizes in (self.prefill.prefix_B, self.prefill.new_B))
        first = self.prefill.P
        seen_BS = (slots < prefix_B1) | ((slots >= first) & (slots < first + new_B1)) | (slots >= self.decode_slot)
        mask_BS = torch.full(seen_BS.shape, MASKED, device=self.device, dtype=self.model.dtype)
        return mask_BS.masked_fill_(seen_BS, 0.0)[:, None, None]

    def _step(self, step: int, tokens_B: Tensor, mask_B11S: Tensor) -> Tensor:
        """Compute the tokens drawn in ``step``; their hidden states."""
        slot = self.decode_slot + step
        if slot >= self.cache.cache_LXBHSD.shape[4]:
            self.cache.grow(slot + DECODE_SLOTS)
        missing = slot + 1 - mask_B11S.shape[3]
        if missing > 0:
            mask_B11S = torch.nn.functional.pad(mask_B11S, (0, missing))
        positions = self.length_B[self.rows] + step
        # Rows that ended draw on until the batch drops them, but not beyond the last position that exists.
        positions_B = self._tensor(np.minimum(positions, self.model.max_context_tokens - 1))
        window = Window(self.cache.cache_LXBHSD, slot, mask_B11S[..., : slot + 1])
        return self.model.hidden(tokens_B[:, None], positions_B[:, None], window)[:, 0]

    def _tensor(self, values: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(values).to(self.device)

    def _record(
        self, step: int, tokens: npt.NDArray[np.int64], logprobs: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.bool_]:
        """Note what was drawn; which rows go on. Rows that ended but are still in the batch draw on, unheeded."""
        if step >= self.tokens_BT.shape[1]:
            room = ((0, 0), (0, DECODE_SLOTS))
            self.tokens_BT, self.logprobs_BT = np.pad(self.tokens_BT, room), np.pad(self.logprobs_BT, room)
        self.tokens_BT[self.rows, step] = tokens
        self.logprobs_BT[self.rows, step] = logprobs
        over = self.drawn_B[self.rows] > 0
        stopped = (self.stop_BK[self.rows] == tokens[:, None]).any(1)
        ends = ~over & (stopped | (step + 1 >= self.budget_B[self.rows]))
        self.drawn_B[self.rows[ends]] = step + 1
        self.stopped_B[self.rows[ends]] = stopped[ends]
        live: npt.NDArray[np.bool_] = ~(over | ends)
        return live

    def _store(self, ended: npt.NDArray[np.int64]) -> None:
        """Make the replies of rows that ended, before the batch drops them."""
        for row in ended.tolist():
            index = int(self.rows[row])
            length = int(self.drawn_B[index])
            # The last token of a reply was drawn but never computed.
            fed = self.tokens_BT[index, : length - 1]
            ranges = [*self.prefill.ranges(index), (self.decode_slot, self.decode_slot + len(fed))]
            self.replies[self.prefill.order[index]] = Reply(
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
