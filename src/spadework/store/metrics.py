"""`metrics.jsonl` and TensorBoard: one set of numbers per iteration, every one of them explained in `METRICS`.

A value that was not measured is left out; one that is not finite is written as null.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from spadework.store.atomic import write_atomically
from spadework.store.errors import StoreError
from spadework.store.glossary import METRICS

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["METRICS", "MetricsLog", "read_metrics"]

Value = float | int
TIME_PREFIX = "time/"
"""Keys that start so are left out when two runs are compared."""


class MetricsLog:
    """Appends to the metrics of a run; a context manager. ``last`` is the last iteration, None in an empty log."""

    def __init__(self, path: Path, tensorboard: SummaryWriter | None, last: int | None) -> None:
        self._path = path
        self._tensorboard = tensorboard
        self.last = last
        # Unbuffered: a line that the disk refused is not tried again when the file is closed.
        self._file = path.open("ab", buffering=0)

    @classmethod
    def open(cls, path: Path, *, after: int, tensorboard: Path | None = None) -> Self:
        """Open the log to continue ``after`` that iteration: lines of later ones go, as does a torn last line.

        ``after`` -1 starts from nothing. ``tensorboard`` is the directory of event files, None for none.
        Raises StoreError if the log cannot be read or TensorBoard is not installed.
        """
        kept = [row for row in read_metrics(path) if row["iteration"] <= after]
        write_atomically(path, "".join(_line(row) for row in kept).encode())
        writer = None if tensorboard is None else _summary_writer(tensorboard, after + 1)
        return cls(path, writer, kept[-1]["iteration"] if kept else None)

    def write(self, iteration: int, values: Mapping[str, Value]) -> None:
        """Add the line of ``iteration``. Raises StoreError for a name that `METRICS` does not explain."""
        unknown = sorted(name for name in values if name not in METRICS)
        if unknown:
            raise StoreError(f"metric {unknown[0]!r} has no line in METRICS of {__package__}.glossary; add one")
        if self.last is not None and iteration <= self.last:
            raise StoreError(f"metrics of iteration {iteration} cannot follow those of {self.last} in {self._path}")
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        try:
            self._file.write(_line({"iteration": iteration, **finite}).encode())
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StoreError(
                f"metrics of iteration {iteration} could not be written to {self._path} ({error}); "
                "free space and give the same command again"
            ) from error
        self.last = iteration
        if self._tensorboard is not None:
            for name, value in values.items():
                self._tensorboard.add_scalar(name, value, iteration)
            self._tensorboard.flush()

    def close(self) -> None:
        self._file.close()
        if self._tensorboard is not None:
            self._tensorboard.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, oldest first; works while it is written. No file: no lines.

    Raises StoreError for a line before the last that is not readable: only the last can have been torn.
    """
    if not path.exists():
        return []
    rows = []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines, start=1):
        is_torn_or_empty = number == len(lines)
        if is_torn_or_empty:
            break
        try:
            row = json.loads(line)
            rows.append({**row, "iteration": int(row["iteration"])})
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"line {number} of {path} is not a line of metrics: {line[:60]!r}; restore the file from a copy"
            ) from error
    return rows


def metrics_text(path: Path) -> str:
    """The whole lines of a log, as they are."""
    return "".join(_line(row) for row in read_metrics(path))


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, allow_nan=False) + "\n"


def _summary_writer(directory: Path, purge_step: int) -> SummaryWriter:
    try:
        # Imported here: it takes seconds, and reading a run does not need it.
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise StoreError(
            f"TensorBoard files cannot be written ({error}); install it with: pip install 'spadework[train]'"
        ) from error
    return SummaryWriter(str(directory), purge_step=purge_step)
