"""Computing prompts: what rows know is laid out in a batch, the rest is computed, and what they share only once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from spadework.engines.local.attention import MASKED, Window
from spadework.engines.local.kvcache import BatchCache, MemberCache
from spadework.engines.local.model import Model
from spadework.engines.local.prefixes import shared_prefixes

PASS_TOKENS = 2048
"""Padded tokens of one pass: large enough for full speed, small enough to stay in the processor's caches."""
LEAST_SAVED = 512
"""Tokens that a shared prefix must save to be worth a pass of its own."""


class Prefill:
    """Prompts as rows of a batch. Rows are in `order`: ascending in what they must compute.

    Row i knows its first ``prefix_B[i]`` tokens, in slots [0, P), and computes the other ``new_B[i]``, in [P, P + N).
    """

    def __init__(
        self,
        model: Model,
        cache: BatchCache,
        prompts: Sequence[npt.NDArray[np.int64]],
        caches: Sequence[MemberCache],
    ) -> None:
        prefixes = [known.shared_prefix(ids) for ids, known in zip(prompts, caches, strict=True)]
        new = [len(ids) - prefix for ids, prefix in zip(prompts, prefixes, strict=True)]
        # Rows of similar length sit together, so that passes carry little padding.
        self.order = sorted(range(len(prompts)), key=lambda index: (new[index], prefixes[index], index))
        self.prefix_B = np.array([prefixes[index] for index in self.order])
        self.new_B = np.array([new[index] for index in self.order])
        self.P, self.N = int(self.prefix_B.max()), int(self.new_B.max())
        self._prompts = [prompts[index] for index in self.order]
        self._caches = [caches[index] for index in self.order]
        self._model, self._cache = model, cache

    def compute(self, slots: int) -> Tensor:
        """Lay out a batch of ``slots`` slots and compute what is new; the hidden state of each row's last token."""
        self._cache.start(self._caches, self.prefix_B, slots)
        last: list[Tensor] = []
        first = 0
        while first < len(self.order):
            # Lengths ascend, so the pass's width is that of its last row.
            count = 1
            while first + count < len(self.order) and (count + 1) * self.new_B[first + count] <= PASS_TOKENS:
                count += 1
            last.append(self._rows(slice(first, first + count)))
            first += count
        return torch.cat(last)

    def ranges(self, row: int) -> list[tuple[int, int]]:
        """The slots of a row's prompt."""
        return [(0, int(self.prefix_B[row])), (self.P, self.P + int(self.new_B[row]))]

    def _rows(self, rows: slice) -> Tensor:
        width = int(self.new_B[rows].max())
        # Only a row that is alone is wider than a pass; in parts it needs no table of all its tokens with each other.
        for first in range(0, width, PASS_TOKENS):
            hidden_BQE = self._pass(rows, first, min(width, first + PASS_TOKENS))
        last_B = self._tensor(self.new_B[rows] - 1 - first)
        return hidden_BQE[torch.arange(len(last_B), device=last_B.device), last_B]

    def _pass(self, rows: slice, first: int, last: int) -> Tensor:
        prefix_B, new_B = self.prefix_B[rows], self.new_B[rows]
        ids_BQ = np.zeros((len(new_B), last - first), dtype=np.int64)
        for row, prompt_T in enumerate(self._prompts[rows]):
            ids_T = prompt_T[prefix_B[row] + first : prefix_B[row] + last]
            ids_BQ[row, : len(ids_T)] = ids_T
        offsets = np.minimum(np.arange(first, last), new_B[:, None] - 1)
        window = Window(self._cache.cache_LXBHSD[:, :, rows], self.P + first, self._mask(prefix_B, first, last))
        return self._model.hidden(self._tensor(ids_BQ), self._tensor(prefix_B[:, None] + offsets), window)

    def _mask(self, prefix_B: npt.NDArray[np.int64], first: int, last: int) -> Tensor | None:
        """What the new tokens [first, last) see: the row's prefix, and the new tokens up to themselves."""
        if not prefix_B.any() and not first:
            return None
        device = self._model.device
        slots_S = torch.arange(self.P + last, device=device)
        known_BS = slots_S < self._tensor(prefix_B)[:, None]
        own_Q = self.P + torch.arange(first, last, device=device)
        new_QS = (slots_S >= self.P) & (slots_S <= own_Q[:, None])
        seen_BQS = known_BS[:, None] | new_QS
        mask_BQS = torch.full(seen_BQS.shape, MASKED, device=device, dtype=self._model.dtype)
        return mask_BQS.masked_fill_(seen_BQS, 0.0)[:, None]

    def _tensor(self, values: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(values).to(self._model.device)


def with_shared_prefixes(
    model: Model,
    cache: BatchCache,
    prompts: Sequence[npt.NDArray[np.int64]],
    caches: Sequence[MemberCache],
) -> list[MemberCache]:
    """The members' caches, those that know less of their prompt than others share with them replaced by that."""
    known_B = [own.shared_prefix(ids) for ids, own in zip(prompts, caches, strict=True)]
    shared = shared_prefixes(prompts, known_B, LEAST_SAVED)
    nothing = cache.empty()
    computed: list[MemberCache] = [nothing] * len(shared)
    for depth in sorted({prefix.depth for prefix in shared}):
        these = [index for index, prefix in enumerate(shared) if prefix.depth == depth]
        ids = [prompts[shared[index].members[0]][: shared[index].length] for index in these]
        parents = [shared[index].parent for index in these]
        prefill = Prefill(model, cache, ids, [nothing if at is None else computed[at] for at in parents])
        prefill.compute(prefill.P + prefill.N)
        for row, place in enumerate(prefill.order):
            computed[these[place]] = MemberCache(ids[place], cache.row(row, prefill.ranges(row)))
    best = list(caches)
    for prefix, found in zip(shared, computed, strict=True):
        for member in prefix.members:
            if prefix.length > known_B[member]:
                best[member] = found
    return best
