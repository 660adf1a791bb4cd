"""Random draws that depend on names, never on the order in which things happen.

Every draw in spadework comes from a generator keyed by the run seed and the names of what is drawn
(`generator(run_seed, "memory", round, slot)`). There is no generator state to checkpoint, and a slow
episode cannot shift the draws of another.
"""

from __future__ import annotations

import hashlib

import numpy as np

Part = str | int


def derive_seed(run_seed: int, *parts: Part) -> int:
    """A 63-bit seed for the draw that ``parts`` name. Equal names give equal seeds on every machine."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in (run_seed, *parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(run_seed: int, *parts: Part) -> np.random.Generator:
    """The generator of the draw that ``parts`` name."""
    return np.random.Generator(np.random.Philox(key=derive_seed(run_seed, *parts)))
