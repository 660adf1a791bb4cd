"""Copying a run directory while the run goes on.

Copying the files one by one could catch the database between two writes. Here the checkpoint is copied first and the
pool last, so that the copy can be continued like the original.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from spadework.store.checkpoint import latest_checkpoint
from spadework.store.errors import StoreError
from spadework.store.metrics import metrics_text
from spadework.store.run_directory import RunDirectory
from spadework.store.schema import one_sentence, open_for_reading

ATTEMPTS = 3
"""A checkpoint may be replaced by a newer one while it is copied."""


def copy_run(source: Path, destination: Path) -> None:
    """Copy the run in ``source`` to ``destination``, which must not exist. TensorBoard files are left out.

    Raises StoreError.
    """
    run = RunDirectory.open_readonly(source)
    if destination.exists():
        raise StoreError(f"{destination} exists already; give the copy a new place")
    partial = destination.with_name(destination.name + ".part")
    try:
        partial.mkdir(parents=True)
        _copy_checkpoint(run.checkpoints, partial / "checkpoints")
        if run.metrics.exists():
            (partial / run.metrics.name).write_text(metrics_text(run.metrics), encoding="utf-8")
        if run.pool.exists():
            _copy_database(open_for_reading(run.pool), run.pool, partial)
        if run.replies.exists():
            _copy_database(_replies(run.replies), run.replies, partial)
        for name in ("config.json", "run.json"):
            shutil.copy2(source / name, partial / name)
        partial.rename(destination)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise StoreError(f"the run {source} could not be copied to {destination}: {error}") from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _copy_checkpoint(source: Path, destination: Path) -> None:
    for attempt in range(ATTEMPTS):
        checkpoint = latest_checkpoint(source)
        if checkpoint is None:
            return
        try:
            shutil.copytree(checkpoint.path, destination / checkpoint.path.name)
            return
        except (FileNotFoundError, shutil.Error):
            shutil.rmtree(destination, ignore_errors=True)
            if attempt == ATTEMPTS - 1:
                raise


def _copy_database(opened: sqlite3.Connection, source: Path, folder: Path) -> None:
    with one_sentence(source), closing(opened) as live, closing(sqlite3.connect(folder / source.name)) as copy:
        live.backup(copy)


def _replies(path: Path) -> sqlite3.Connection:
    with one_sentence(path):
        return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
