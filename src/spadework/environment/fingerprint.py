"""Tell programs apart: exact twins under renamed variables, and near-duplicates by their text.

A program becomes a list of tokens: its syntax tree in order, without docstrings, comments, annotations and layout. For
the *digest* every identifier that the program itself binds is numbered by its first use within its scope, so that
renaming changes nothing; constants and the names of the standard library stay. For the *shingles* those identifiers
are one placeholder, string constants are split into words, and each run of `SHINGLE_TOKENS` tokens is hashed to 64
bits: programs of one template with other words, numbers or rules share only what is really equal in them.

Similarity is the exact Jaccard index of two shingle sets. Candidates are found by MinHash (Broder 1997) with banding
(Leskovec, Rajaraman, Ullman, *Mining of Massive Datasets*, chapter 3): sets of Jaccard index s share at least one of
`BANDS` bands of `ROWS` hashes with probability 1 - (1 - s^ROWS)^BANDS: 0.999 at s = 0.95 and 0.09 at s = 0.7.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spadework.environment.canonical import canonical_tokens, shingle_words
from spadework.environment.program import parse_source, strip_docstrings
from spadework.seeding import generator

SHINGLE_TOKENS = 5
BANDS = 10
ROWS = 13
MAX_CANDIDATES = 64
"""Most candidates whose exact similarity is computed, those that share most bands first."""

Shingles = NDArray[np.uint64]


@dataclass(frozen=True)
class Fingerprint:
    """What identifies a program's meaning (``digest``, 64 hexadecimal digits) and its text (``shingles``, sorted)."""

    digest: str
    shingles: Shingles


class NoveltyIndex(Protocol):
    """Programs that were seen, searchable by likeness without reading all of them."""

    def nearest(self, fingerprint: str, shingles: Shingles) -> tuple[str, float] | None:
        """The id of the most similar program found and its similarity in [0, 1]; None if nothing is alike.

        A program of the same ``fingerprint`` (digest) is a twin, at similarity 1.
        """

    def add(self, program_id: str, fingerprint: str, shingles: Shingles) -> None:
        """Remember a program."""


@lru_cache(maxsize=64)
def fingerprint(source: str) -> Fingerprint:
    """Raises ProgramRejected if ``source`` does not parse. The last programs of a round are remembered."""
    tokens = canonical_tokens(strip_docstrings(parse_source(source)))
    text = "\x1f".join(f"{token.kind.value}{token.text}" for token in tokens)
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return Fingerprint(digest=digest, shingles=_shingles(shingle_words(tokens)))


def jaccard(left: Shingles, right: Shingles) -> float:
    """|left ∩ right| / |left ∪ right| of two sorted sets; two empty sets are equal (1)."""
    shared = int(np.intersect1d(left, right, assume_unique=True).size)
    union = left.size + right.size - shared
    return shared / union if union else 1.0


def minhash(shingles: Shingles) -> NDArray[np.uint32]:
    """The MinHash signature: `BANDS * ROWS` values, each the smallest multiply-shift hash of the set."""
    multipliers_H, offsets_H = _hash_functions()
    if not shingles.size:
        return np.zeros(BANDS * ROWS, dtype=np.uint32)
    hashed_HN = multipliers_H[:, None] * shingles[None, :] + offsets_H[:, None]
    signature_H: NDArray[np.uint64] = (hashed_HN >> np.uint64(32)).min(axis=1)
    return signature_H.astype(np.uint32)


def bands(signature: NDArray[np.uint32]) -> tuple[int, ...]:
    """One key per band, each a signed 64-bit integer (what SQLite can index). Keys of different bands differ."""
    return tuple(
        int.from_bytes(
            hashlib.blake2b(index.to_bytes(2, "big") + row.astype(">u4").tobytes(), digest_size=8).digest(),
            "big",
            signed=True,
        )
        for index, row in enumerate(signature.reshape(BANDS, ROWS))
    )


class MemoryNoveltyIndex:
    """An index in memory. One lookup reads the programs that share a band, at most `MAX_CANDIDATES` of them in full."""

    def __init__(self) -> None:
        self._twins: dict[str, str] = {}
        self._shingles: list[Shingles] = []
        self._ids: list[str] = []
        self._buckets: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def nearest(self, fingerprint: str, shingles: Shingles) -> tuple[str, float] | None:
        if fingerprint in self._twins:
            return self._twins[fingerprint], 1.0
        shared_bands: dict[int, int] = {}
        for key in bands(minhash(shingles)):
            for position in self._buckets.get(key, ()):
                shared_bands[position] = shared_bands.get(position, 0) + 1
        candidates = sorted(shared_bands, key=lambda position: (-shared_bands[position], position))[:MAX_CANDIDATES]
        scored = [(jaccard(shingles, self._shingles[position]), position) for position in candidates]
        if not scored:
            return None
        similarity, position = max(scored, key=lambda pair: (pair[0], -pair[1]))
        return self._ids[position], similarity

    def add(self, program_id: str, fingerprint: str, shingles: Shingles) -> None:
        position = len(self._ids)
        self._twins.setdefault(fingerprint, program_id)
        self._ids.append(program_id)
        self._shingles.append(shingles)
        for key in bands(minhash(shingles)):
            self._buckets.setdefault(key, []).append(position)


def _shingles(tokens: list[str]) -> Shingles:
    """The distinct hashes of all runs of `SHINGLE_TOKENS` tokens, sorted; a shorter text is one run."""
    hashes = {token: _hash64(token) for token in set(tokens)}
    hashed_N = np.array([hashes[token] for token in tokens], dtype=np.uint64)
    if hashed_N.size < SHINGLE_TOKENS:
        hashed_N = np.concatenate([hashed_N, np.zeros(SHINGLE_TOKENS - hashed_N.size, dtype=np.uint64)])
    multipliers = _hash_functions()[0][:SHINGLE_TOKENS]
    windows_NK = np.lib.stride_tricks.sliding_window_view(hashed_N, SHINGLE_TOKENS)
    mixed_N = (windows_NK * multipliers).sum(axis=1, dtype=np.uint64)
    distinct_N = np.unique(mixed_N ^ (mixed_N >> np.uint64(29)))
    distinct_N.setflags(write=False)
    return distinct_N


def _hash64(token: str) -> int:
    return int.from_bytes(hashlib.blake2b(token.encode("utf-8", "backslashreplace"), digest_size=8).digest(), "big")


@cache
def _hash_functions() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Odd multipliers and offsets, the same in every run: signatures are stored."""
    rng = generator(0, "minhash")
    multipliers_H = rng.integers(0, 2**63, size=BANDS * ROWS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    offsets_H = rng.integers(0, 2**64, size=BANDS * ROWS, dtype=np.uint64)
    multipliers_H.setflags(write=False)
    offsets_H.setflags(write=False)
    return multipliers_H, offsets_H
