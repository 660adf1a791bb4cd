"""Numbered pieces of a stream, put in order."""

from __future__ import annotations

from collections.abc import Iterator


class InOrder:
    """Pieces arrive in any order, each once, numbered from 0."""

    def __init__(self) -> None:
        self._next = 0
        self._early: dict[int, bytes] = {}

    def put(self, number: int, piece: bytes) -> Iterator[bytes]:
        """The pieces whose turn it is now."""
        self._early[number] = piece
        while self._next in self._early:
            self._next += 1
            yield self._early.pop(self._next - 1)
