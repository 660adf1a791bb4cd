"""The corpus: documents drawn without replacement, in an order that the run seed and the epoch name.

Nothing but the cursor is state, so a run that is resumed draws what it would have drawn.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spadework.config import CorpusConfig
from spadework.curriculum.documents import CorpusError, Document, NoDocuments, Skipped, Source
from spadework.curriculum.pydocs import PythonDocsSource
from spadework.curriculum.sources import TEXT_SUFFIXES, FolderSource, JsonLinesSource, ParquetSource
from spadework.seeding import generator

PYTHON = "python:"
NONE = "none"
USUAL_CHARS_PER_TOKEN = 4.0


class Tokenizer(Protocol):
    def encode(self, text: str, *, add_special_tokens: bool) -> Sequence[int]: ...


class Corpus:
    """An opened corpus: never empty. ``name`` is its source as configured.

    ``fingerprint`` changes whenever a document does: a run that is resumed compares it. ``skipped`` counts what was
    left out by reason and ``first_skipped`` quotes the first of it.
    """

    def __init__(self, name: str, source: Source, skipped: Skipped) -> None:
        self.name = name
        self.fingerprint = source.fingerprint
        self.skipped: Mapping[str, int] = skipped.counts
        self.first_skipped = skipped.first
        self._source = source
        self._order: tuple[tuple[int, int], NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self._source)

    def document(self, index: int) -> Document:
        """Raises CorpusError if the document can no longer be read."""
        return self._source.document(index)

    def order(self, run_seed: int, epoch: int) -> NDArray[np.int64]:
        """The permutation of an epoch; the last one asked for is kept."""
        key = (run_seed, epoch)
        if self._order is None or self._order[0] != key:
            self._order = (key, generator(run_seed, "corpus", epoch).permutation(len(self)))
        return self._order[1]


@dataclass(frozen=True)
class CorpusCursor:
    """How far the corpus was drawn: ``position`` documents of ``epoch``. Both are JSON numbers."""

    epoch: int = 0
    position: int = 0


def open_corpus(config: CorpusConfig) -> Corpus:
    """Open ``config.source``. Raises CorpusError if it is missing, of an unknown kind, or has no usable document."""
    skipped = Skipped()
    source = _source(config, skipped)
    if len(source) == 0:
        total = sum(skipped.counts.values())
        found = ", ".join(f"{count} {reason}" for reason, count in skipped.counts.items())
        why = f"all {total} texts were left out ({found}), first {skipped.first}" if total else "it holds no texts"
        raise CorpusError(
            f"the corpus {config.source} has no usable document: {why}; "
            "give other texts, or lower corpus.min_words if they are short"
        )
    return Corpus(config.source, source, skipped)


def draw(corpus: Corpus, run_seed: int, cursor: CorpusCursor) -> tuple[Document, CorpusCursor]:
    """The document at ``cursor`` and the cursor behind it. Every document comes once per epoch."""
    index = int(corpus.order(run_seed, cursor.epoch)[cursor.position])
    is_last = cursor.position + 1 == len(corpus)
    after = CorpusCursor(cursor.epoch + 1, 0) if is_last else CorpusCursor(cursor.epoch, cursor.position + 1)
    return corpus.document(index), after


def truncate(text: str, max_tokens: int, tokenizer: Tokenizer) -> tuple[str, bool]:
    """The longest start of ``text`` of whole words and at most ``max_tokens`` tokens, and whether it was cut.

    A first word that is longer than that is cut within.
    """
    # A text much longer than the budget is not tokenised as a whole.
    reach = max(64, 8 * max_tokens)
    while reach < len(text) and _fits(text[:reach], max_tokens, tokenizer):
        reach *= 2
    if reach >= len(text) and _fits(text, max_tokens, tokenizer):
        return text, False
    ends = [match.end() for match in re.finditer(r"\S+", text[:reach])]
    if reach < len(text) and not text[reach].isspace() and ends and ends[-1] == reach:
        ends.pop()
    end = _last_that_fits(ends, text, max_tokens, tokenizer)
    if end == 0:
        end = _last_that_fits(range(1, reach + 1), text, max_tokens, tokenizer)
    return text[:end], True


def _source(config: CorpusConfig, skipped: Skipped) -> Source:
    if config.source == NONE:
        return NoDocuments()
    if config.source.startswith(PYTHON):
        names = [name.strip() for name in config.source.removeprefix(PYTHON).split(",") if name.strip()]
        if not names:
            raise CorpusError(f"corpus.source {config.source!r} names no module; write it as python:NAME,NAME")
        return PythonDocsSource(names, config.min_words, skipped)
    path = Path(config.source).expanduser()
    if path.is_dir():
        return FolderSource(path, config.min_words, skipped)
    if not path.exists():
        raise CorpusError(
            f"the corpus {config.source} does not exist; set corpus.source to a folder, file or python:NAME"
        )
    match path.suffix.lower():
        case ".jsonl":
            return JsonLinesSource(path, config.text_field, config.min_words, skipped)
        case ".parquet":
            return ParquetSource(path, config.text_field, config.min_words, skipped)
    raise CorpusError(
        f"the corpus {config.source} is of no known kind; give a folder of {' or '.join(TEXT_SUFFIXES)} files,"
        " a .jsonl or .parquet file, python:NAME, or none"
    )


def _fits(text: str, max_tokens: int, tokenizer: Tokenizer) -> bool:
    return _count(text, tokenizer) <= max_tokens


def _count(text: str, tokenizer: Tokenizer) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False))


def _last_that_fits(ends: Sequence[int], text: str, max_tokens: int, tokenizer: Tokenizer) -> int:
    """The last of the rising ``ends`` whose start of ``text`` fits, or 0.

    Tokenising is what costs: a guess takes the tokens to be spread evenly between what is known to fit and what is not,
    and every third one halves the ends between them, so that uneven texts take no long way.
    """
    low, high, guesses = 0, len(ends), 0
    fits, exceeds = (0, 0), None
    while low < high:
        guesses += 1
        if guesses % 3 == 0:
            middle = (low + high) // 2
        else:
            reach = fits[0] + (max_tokens - fits[1]) * _chars_per_token(fits, exceeds)
            middle = min(max(low, bisect_right(ends, reach) - 1), high - 1)
        found = (ends[middle], _count(text[: ends[middle]], tokenizer))
        if found[1] <= max_tokens:
            low, fits = middle + 1, found
        else:
            high, exceeds = middle, found
    return ends[low - 1] if low else 0


def _chars_per_token(fits: tuple[int, int], exceeds: tuple[int, int] | None) -> float:
    """Between two starts of a text, given as (characters, tokens)."""
    if exceeds is not None:
        return (exceeds[0] - fits[0]) / max(1, exceeds[1] - fits[1])
    return fits[0] / fits[1] if fits[1] else USUAL_CHARS_PER_TOKEN
