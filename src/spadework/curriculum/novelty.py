"""Near-duplicate search over the pool, through its index of bands.

Programs of the round under way are not in the pool yet: they are held in memory until their iteration is written.
"""

from __future__ import annotations

import numpy as np

from spadework.environment.fingerprint import (
    MAX_CANDIDATES,
    MemoryNoveltyIndex,
    Shingles,
    bands,
    jaccard,
    minhash,
)
from spadework.store.reader import PoolReader


class PoolNovelty:
    """A `NoveltyIndex` over the environments of a pool and those added since the last `forget_pending`."""

    def __init__(self, pool: PoolReader) -> None:
        self._pool = pool
        self._pending = MemoryNoveltyIndex()

    def nearest(self, fingerprint: str, shingles: Shingles) -> tuple[str, float] | None:
        """The most similar program and its similarity; the pool comes first among equals."""
        twin = self._pool.twin(fingerprint)
        if twin is not None:
            return twin, 1.0
        found = [
            (id_, jaccard(shingles, np.frombuffer(stored, dtype="<u8")))
            for id_, stored in self._pool.alike(bands(minhash(shingles)), MAX_CANDIDATES)
        ]
        pending = self._pending.nearest(fingerprint, shingles)
        if pending is not None:
            found.append(pending)
        return max(found, key=lambda candidate: candidate[1], default=None)

    def add(self, program_id: str, fingerprint: str, shingles: Shingles) -> None:
        self._pending.add(program_id, fingerprint, shingles)

    def forget_pending(self) -> None:
        """Call it when the round's environments were written to the pool, which then knows them."""
        self._pending = MemoryNoveltyIndex()
