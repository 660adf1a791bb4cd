"""Files that are either there in full or not at all, whenever the process or the machine stops."""

from __future__ import annotations

import os
from pathlib import Path

TEMPORARY_SUFFIX = ".part"


def write_atomically(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``; a reader sees the old file or the new one. Raises OSError."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Ask the disk to keep what was written to ``path``."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Ask the disk to keep the names in ``path`` (created, renamed, removed)."""
    sync_file(path)
