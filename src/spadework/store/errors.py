"""What the store raises: always one sentence that names the thing, the place and the remedy."""

from __future__ import annotations


class StoreError(Exception):
    """Something of a run directory cannot be used as asked."""


class CheckpointError(StoreError):
    """A checkpoint could not be written or read."""
