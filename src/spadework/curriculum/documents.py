"""What a corpus is made of: documents, the sources that give them, and why texts were left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

QUOTED_CHARS = 80
BLANKS = 1000


class CorpusError(Exception):
    """A corpus cannot be used; one sentence that names it, the place and the remedy."""


@dataclass(frozen=True)
class Document:
    """A text that grounds the designer. ``id`` stays the same whenever the same source is opened."""

    id: str
    title: str
    text: str


class Source(Protocol):
    """Documents by number, read when asked for."""

    def __len__(self) -> int: ...

    def document(self, index: int) -> Document:
        """Raises CorpusError if the document can no longer be read."""
        ...

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that change whenever any document does."""
        ...


class NoDocuments:
    """Blank documents, many of them: the designer is grounded in nothing, and draws are named by their document."""

    fingerprint = "0" * 64

    def __len__(self) -> int:
        return BLANKS

    def document(self, index: int) -> Document:
        return Document(f"none/{index}", "", "")


class Skipped:
    """Counts what a source leaves out by reason, and quotes the first."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.first: str | None = None

    def add(self, reason: str, place: str, excerpt: str = "") -> None:
        self._counts[reason] += 1
        if self.first is None:
            quoted = f": {excerpt[:QUOTED_CHARS]!r}" if excerpt else ""
            self.first = f"{place} ({reason}){quoted}"

    @property
    def counts(self) -> Mapping[str, int]:
        return dict(sorted(self._counts.items()))


def has_words(text: str, least: int) -> bool:
    """Whether ``text`` has at least ``least`` words."""
    return len(text.split(maxsplit=least)) >= least
