"""Where keys and values live: a compact store per member, and the padded batch that decodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True)
class CacheShape:
    """Sizes of one token's keys and values, and where they are kept."""

    layers: int
    heads: int
    width: int
    device: torch.device
    dtype: torch.dtype

    def zeros(self, *sizes: int) -> Tensor:
        return torch.zeros(*sizes, device=self.device, dtype=self.dtype)

    def empty(self) -> MemberCache:
        return MemberCache(np.empty(0, dtype=np.int64), self.zeros(self.layers, 2, self.heads, 0, self.width))


@dataclass(frozen=True)
class MemberCache:
    """The tokens whose keys and values are known, and those: ``keys_values_LXHTD`` (X = 2: keys, values)."""

    token_ids_T: npt.NDArray[np.int64]
    keys_values_LXHTD: Tensor

    def shared_prefix(self, prompt_ids: npt.NDArray[np.int64]) -> int:
        """How many of the prompt's first tokens are here. The last one is always computed: its logits are needed."""
        limit = min(len(self.token_ids_T), len(prompt_ids) - 1)
        differs = np.flatnonzero(self.token_ids_T[:limit] != prompt_ids[:limit])
        return int(differs[0]) if len(differs) else limit


class BatchCache:
    """The cache of a batch, one slot range for all rows.

    Slots [0, P) hold what rows already knew (row i: its first ``prefix_B[i]``), the next N their new prompt tokens
    (``new_B[i]`` of them), the rest one slot per decoded token. All rows write the same slots, so a write is a slice;
    the mask says which slots a row may see. Memory is kept between batches: masked slots may hold old numbers, which
    are finite.
    """

    def __init__(self, shape: CacheShape) -> None:
        self._shape = shape
        self._memory = shape.zeros(0)
        self.cache_LXBHSD = shape.zeros(shape.layers, 2, 0, shape.heads, 0, shape.width)

    def empty(self) -> MemberCache:
        """One that knows nothing."""
        return self._shape.empty()

    def start(self, members: Sequence[MemberCache], prefix_B: npt.NDArray[np.int64], slots: int) -> None:
        """Lay out one row per member with its first ``prefix_B`` tokens, and room for ``slots`` slots."""
        self.cache_LXBHSD = self._allocate(len(members), slots)
        for row, (member, prefix) in enumerate(zip(members, prefix_B.tolist(), strict=True)):
            if prefix:
                self.cache_LXBHSD[:, :, row, :, :prefix] = member.keys_values_LXHTD[:, :, :, :prefix]

    def row(self, row: int, ranges: Sequence[tuple[int, int]]) -> Tensor:
        """A compact copy (LXHTD) of slot ranges of one row."""
        row_LXHSD = self.cache_LXBHSD[:, :, row]
        return torch.cat([row_LXHSD[:, :, :, first:last] for first, last in ranges], dim=3)

    def keep_rows(self, rows: Tensor) -> None:
        """Drop all rows but these (ascending)."""
        self.cache_LXBHSD = self.cache_LXBHSD.index_select(2, rows)

    def grow(self, slots: int) -> None:
        """Room for ``slots`` slots in all; what is known stays."""
        layers, pair, rows, heads, known, width = self.cache_LXBHSD.shape
        grown = self._shape.zeros(layers, pair, rows, heads, slots, width)
        grown[:, :, :, :, :known] = self.cache_LXBHSD
        self.cache_LXBHSD = grown

    def _allocate(self, rows: int, slots: int) -> Tensor:
        shape = (self._shape.layers, 2, rows, self._shape.heads, slots, self._shape.width)
        size = int(np.prod(shape))
        if self._memory.numel() < size:
            self._memory = self._shape.zeros(size)
        return self._memory[:size].view(shape)
