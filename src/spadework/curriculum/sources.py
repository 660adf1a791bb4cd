"""Corpora in files: a folder of text, JSON lines, Parquet.

A source is read through once when it is opened, to count what it holds; after that one document is read at a time, so
that a corpus need not fit in memory.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spadework.curriculum.documents import CorpusError, Document, Skipped, has_words

if TYPE_CHECKING:
    import pyarrow as pa

TEXT_SUFFIXES = (".txt", ".md")
TITLE_CHARS = 80


class FolderSource:
    """Every .txt and .md file under a folder, sorted; a document's id is its path in the folder."""

    def __init__(self, folder: Path, min_words: int, skipped: Skipped) -> None:
        self._folder = folder
        self._names: list[str] = []
        digest = hashlib.sha256()
        paths = (p for p in folder.rglob("*") if p.suffix.lower() in TEXT_SUFFIXES and p.is_file())
        for path in sorted(paths):
            name = path.relative_to(folder).as_posix()
            content = _read(path)
            text = _decoded(content)
            if text is None:
                skipped.add("not UTF-8 text", str(path))
            elif not has_words(text, min_words):
                skipped.add(f"fewer than {min_words} words", str(path), text)
            else:
                self._names.append(name)
                digest.update(f"{name}\x1f{len(content)}\x1f".encode("utf-8", "surrogateescape"))
                digest.update(content)
        self.fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._names)

    def document(self, index: int) -> Document:
        name = self._names[index]
        text = _decoded(_read(self._folder / name))
        if text is None:
            raise CorpusError(f"{self._folder / name} was text when the corpus was opened and no longer is; restore it")
        return Document(name, _title(text, Path(name).stem), text)


class JsonLinesSource:
    """One JSON object per line; a document's id is the file's name and the line's number."""

    def __init__(self, path: Path, text_field: str, min_words: int, skipped: Skipped) -> None:
        self._path = path
        self._field = text_field
        self._offsets = array("q")
        self._lines = array("q")
        digest = hashlib.sha256()
        offset = 0
        for number, line in enumerate(_lines(path), start=1):
            digest.update(line)
            if line.strip():
                reason = self._fault(line, min_words)
                if reason is None:
                    self._offsets.append(offset)
                    self._lines.append(number)
                else:
                    skipped.add(reason, f"line {number} of {path}", line.decode("utf-8", "replace").strip())
            offset += len(line)
        self.fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._offsets)

    def document(self, index: int) -> Document:
        number = self._lines[index]
        try:
            with self._path.open("rb") as file:
                file.seek(self._offsets[index])
                row = json.loads(file.readline())
            text = row[self._field]
            if not isinstance(text, str):
                raise TypeError(f"{self._field} is not text")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CorpusError(
                f"line {number} of {self._path} has changed since the corpus was opened ({error}); restore it"
            ) from error
        title = row.get("title")
        name = f"{self._path.name}:{number}"
        return Document(name, title if isinstance(title, str) and title else _title(text, name), text)

    def _fault(self, line: bytes, min_words: int) -> str | None:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return "not JSON"
        if not isinstance(row, dict):
            return "not a JSON object"
        text = row.get(self._field)
        if not isinstance(text, str):
            return f"no text in field {self._field!r}"
        return None if has_words(text, min_words) else f"fewer than {min_words} words"


class ParquetSource:
    """A text column of a Parquet file; a document's id is the file's name and the row's number, from 0."""

    def __init__(self, path: Path, text_field: str, min_words: int, skipped: Skipped) -> None:
        self._path = path
        self._field = text_field
        self._file = _open_parquet(path, text_field)
        self._rows = array("q")
        self._starts = [0]
        self._group: tuple[int, pa.ChunkedArray] | None = None
        digest = hashlib.sha256()
        for group in range(self._file.num_row_groups):
            start = self._starts[-1]
            column = self._column(group)
            for number, text in enumerate(column.to_pylist(), start=start):
                if not isinstance(text, str):
                    skipped.add(f"no text in field {text_field!r}", f"row {number} of {path}")
                elif not has_words(text, min_words):
                    skipped.add(f"fewer than {min_words} words", f"row {number} of {path}", text)
                else:
                    self._rows.append(number)
                    digest.update(f"{number}\x1f{len(text)}\x1f{text}".encode("utf-8", "surrogatepass"))
            self._starts.append(start + len(column))
        self.fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._rows)

    def document(self, index: int) -> Document:
        row = self._rows[index]
        group = next(number for number, end in enumerate(self._starts[1:]) if row < end)
        text: str = self._column(group)[row - self._starts[group]].as_py()
        name = f"{self._path.name}:{row}"
        return Document(name, _title(text, name), text)

    def _column(self, group: int) -> pa.ChunkedArray:
        # Files of one large group are common: reading it again for every document would be slow.
        if self._group is None or self._group[0] != group:
            try:
                self._group = (group, self._file.read_row_group(group, columns=[self._field]).column(self._field))
            except (OSError, ValueError) as error:
                raise CorpusError(
                    f"row group {group} of {self._path} cannot be read ({error}); restore the file"
                ) from error
        return self._group[1]


def _open_parquet(path: Path, text_field: str) -> Any:
    try:
        # Imported here: it is optional.
        import pyarrow.parquet
    except ImportError as error:
        raise CorpusError(
            f"reading {path} needs pyarrow, which is not installed; install it with: pip install 'spadework[parquet]'"
        ) from error
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path} cannot be read as Parquet ({error}); check the file") from error
    names = file.schema_arrow.names
    if text_field not in names:
        raise CorpusError(
            f"{path} has no column {text_field!r} but {', '.join(map(repr, names))}; set corpus.text_field to one"
        )
    return file


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise CorpusError(f"the corpus {path} cannot be read ({error}); check its permissions") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CorpusError(f"the document {path} cannot be read ({error}); make it readable or remove it") from error


def _decoded(content: bytes) -> str | None:
    """UTF-8 text, or None for anything else; zero bytes are valid UTF-8 but not text."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _title(text: str, otherwise: str) -> str:
    """The first line that says something, without Markdown's marks."""
    for line in text.splitlines():
        title = line.strip().lstrip("#").strip()
        if title:
            return title[:TITLE_CHARS]
    return otherwise
