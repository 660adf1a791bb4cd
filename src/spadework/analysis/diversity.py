"""How different a run's environments are: structures, nearest neighbours and an effective number per round.

Walks a pool round by round, so that memory holds one round and a digest per structure, however large the pool is.
Not covered: what programs are about. Two programs of one structure with other words count as one structure.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spadework.environment.canonical import TokenKind, canonical_tokens
from spadework.environment.fingerprint import Shingles, jaccard
from spadework.environment.program import parse_source, strip_docstrings
from spadework.store.reader import PoolReader

_CONSTANTS = (TokenKind.NUMBER, TokenKind.TEXT)


@dataclass(frozen=True)
class RoundDiversity:
    """``structures`` are distinct skeletons of the round, ``new_structures`` those that no earlier round had.

    ``nearest`` is the mean similarity in [0, 1] of an environment to the most similar other of its round, None with
    fewer than two. ``vendi`` lies in [1, environments].
    """

    round: int
    environments: int
    structures: int
    new_structures: int
    nearest: float | None
    vendi: float


def diversity_by_round(pool: PoolReader) -> Iterator[RoundDiversity]:
    """The rounds of ``pool`` that have environments, in order. Raises StoreError if it cannot be read."""
    last = pool.last_round()
    known: set[str] = set()
    for round_ in range(0 if last is None else last + 1):
        environments = pool.environments(round_)
        if not environments:
            continue
        skeletons = {skeleton(environment.source) for environment in environments}
        shingles = [np.array(environment.shingles, dtype=np.uint64) for environment in environments]
        alike_NN = similarities(shingles)
        yield RoundDiversity(
            round=round_,
            environments=len(environments),
            structures=len(skeletons),
            new_structures=len(skeletons - known),
            nearest=nearest_similarity(alike_NN),
            vendi=vendi_score(alike_NN),
        )
        known |= skeletons


def skeleton(source: str) -> str:
    """A digest (32 hexadecimal digits) of the program's structure: equal for programs that differ in constants only.

    Nor do names count, nor how many constants stand in a row. Raises ProgramRejected if ``source`` does not parse.
    """
    parts: list[str] = []
    for token in canonical_tokens(strip_docstrings(parse_source(source))):
        part = "constant" if token.kind in _CONSTANTS else f"{token.kind.value}{token.text}"
        if part != "constant" or parts[-1:] != ["constant"]:
            parts.append(part)
    return hashlib.blake2b("\x1f".join(parts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def similarities(shingles: Sequence[Shingles]) -> NDArray[np.float64]:
    """The Jaccard index of every pair."""
    alike_NN = np.eye(len(shingles))
    for one in range(len(shingles)):
        for other in range(one):
            alike_NN[one, other] = alike_NN[other, one] = jaccard(shingles[one], shingles[other])
    return alike_NN


def nearest_similarity(alike_NN: NDArray[np.float64]) -> float | None:
    """Mean over all of the similarity to the nearest other one; None with fewer than two."""
    if len(alike_NN) < 2:
        return None
    others_NN = alike_NN - 2 * np.eye(len(alike_NN))
    return float(others_NN.max(axis=1).mean())


def vendi_score(alike_NN: NDArray[np.float64]) -> float:
    """The effective number of different ones: exp of the entropy of the eigenvalues of K / n (Friedman & Dieng 2023).

    n if none are alike, 1 if all are the same. The Jaccard index is a positive semidefinite kernel, so that only
    rounding can make an eigenvalue negative. Raises ValueError for an empty matrix.
    """
    if not len(alike_NN):
        raise ValueError("nothing has no diversity")
    eigenvalues_N = np.linalg.eigvalsh(alike_NN / len(alike_NN))
    positive = [float(value) for value in eigenvalues_N if value > 1e-12]
    return math.exp(-sum(value * math.log(value) for value in positive))
