"""Prefixes that prompts of a batch share, found so that each is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class SharedPrefix:
    """The first ``length`` tokens of every prompt in ``members``.

    ``parent`` is the index of a shorter one that they begin with, if there is one; ``depth`` counts those.
    """

    length: int
    members: tuple[int, ...]
    parent: int | None
    depth: int


def shared_prefixes(
    prompts: Sequence[npt.NDArray[np.int64]], known_B: Sequence[int], least_saved: int
) -> list[SharedPrefix]:
    """Prefixes worth computing apart, parents before children.

    Prompt i need not compute its first ``known_B[i]`` tokens in any case. A prefix is worth it if it saves
    ``least_saved`` tokens or more beyond its parent. The last token of a prompt is in none: its logits are needed.
    """
    # Big-endian bytes sort as the ids do, and prompts that share most stand beside each other.
    order = sorted(range(len(prompts)), key=lambda index: prompts[index].astype(">u8").tobytes())
    common = [_common(prompts[one], prompts[other]) for one, other in pairwise(order)]
    found: list[SharedPrefix] = []
    stack: list[tuple[int, int, int | None]] = [(0, len(order), None)]
    while stack:
        first, last, parent = stack.pop()
        if last - first < 2:
            continue
        members = tuple(sorted(order[first:last]))
        shared = min(common[first : last - 1])
        start = 0 if parent is None else found[parent].length
        length = min(shared, min(len(prompts[index]) for index in members) - 1)
        saved = sum(max(0, length - max(start, known_B[index])) for index in members) - (length - start)
        if length > start and saved >= least_saved:
            found.append(SharedPrefix(length, members, parent, 0 if parent is None else found[parent].depth + 1))
            parent = len(found) - 1
        edges = [first, *(at + 1 for at in range(first, last - 1) if common[at] == shared), last]
        stack += [(left, right, parent) for left, right in pairwise(edges)]
    return found


def _common(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> int:
    limit = min(len(one), len(other))
    differs = np.flatnonzero(one[:limit] != other[:limit])
    return int(differs[0]) if len(differs) else limit
