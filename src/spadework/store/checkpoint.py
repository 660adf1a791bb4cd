"""Checkpoints that are complete or not there, whenever the process is killed or the disk is full.

A checkpoint is the directory ``<iteration>`` with ``state.json``, ``weights/`` and ``manifest.json``. It is put
together under a temporary name; the manifest, with the size and SHA-256 of every other file, is written last and the
directory renamed after that. Whatever was interrupted keeps its temporary name and is removed by the next write.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spadework.store.atomic import sync_directory, sync_file, write_atomically
from spadework.store.errors import CheckpointError

MANIFEST = "manifest.json"
STATE = "state.json"
WEIGHTS = "weights"
_WRITING = ".writing-"
_REMOVING = ".removing-"


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint. ``passed_over`` says, in a sentence each, which newer ones were not complete."""

    iteration: int
    path: Path
    state: Mapping[str, Any]
    passed_over: tuple[str, ...] = ()

    @property
    def weights(self) -> Path:
        return self.path / WEIGHTS


async def write_checkpoint(
    directory: Path,
    iteration: int,
    state: Mapping[str, Any],
    save_weights: Callable[[Path], Awaitable[None]],
    keep: int,
) -> Path:
    """Write the checkpoint of ``iteration`` and keep the last ``keep``, this one included.

    ``state`` is JSON (numbers come back exactly); ``save_weights`` is given an existing directory to fill. Checkpoints
    of later iterations belong to a course that was given up, and go. Raises CheckpointError if the disk refuses:
    earlier checkpoints are then as they were. What else ``save_weights`` raises is passed on.
    """
    temporary = directory / f"{_WRITING}{iteration:06d}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(directory)
        (temporary / WEIGHTS).mkdir(parents=True)
        write_atomically(temporary / STATE, json.dumps(state, allow_nan=False).encode())
        await save_weights(temporary / WEIGHTS)
        _seal(temporary, iteration)
        final = _put_in_place(temporary, directory / f"{iteration:06d}")
        _keep_last(directory, iteration, keep)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if not _is_of_the_disk(error):
            raise
        last = max((number for number in _numbered(directory) if number < iteration), default=None)
        remains = "there is no earlier one" if last is None else f"the last good one is of iteration {last}"
        raise CheckpointError(
            f"the checkpoint of iteration {iteration} could not be written to {directory} ({error}) and {remains}; "
            "free space and give the same command again"
        ) from error
    return final


def latest_checkpoint(directory: Path) -> Checkpoint | None:
    """The newest complete checkpoint, or None if none was ever finished.

    Raises CheckpointError if there are checkpoints and none of them is complete.
    """
    passed_over: list[str] = []
    for iteration, path in sorted(_numbered(directory).items(), reverse=True):
        fault = _fault(path)
        if fault is None:
            state = json.loads((path / STATE).read_text(encoding="utf-8"))
            return Checkpoint(iteration, path, state, tuple(passed_over))
        passed_over.append(f"checkpoint {path} is not complete: {fault}")
    if passed_over:
        raise CheckpointError(
            f"no checkpoint in {directory} is complete ({'; '.join(passed_over)}); "
            "restore one from a copy, or remove the directory to start from the beginning"
        )
    return None


def _seal(temporary: Path, iteration: int) -> None:
    files = sorted(path for path in temporary.rglob("*") if path.is_file())
    entries = {}
    for path in files:
        sync_file(path)
        entries[path.relative_to(temporary).as_posix()] = {"bytes": path.stat().st_size, "sha256": _sha256(path)}
    for folder in (path for path in temporary.rglob("*") if path.is_dir()):
        sync_directory(folder)
    manifest = {"iteration": iteration, "files": entries}
    write_atomically(temporary / MANIFEST, json.dumps(manifest, indent=1).encode())


def _put_in_place(temporary: Path, final: Path) -> Path:
    if final.exists():
        _remove(final)
    temporary.rename(final)
    sync_directory(final.parent)
    return final


def _keep_last(directory: Path, iteration: int, keep: int) -> None:
    numbered = _numbered(directory)
    kept = sorted(number for number in numbered if number <= iteration)[-keep:]
    for number, path in numbered.items():
        if number not in kept:
            _remove(path)


def _remove(path: Path) -> None:
    # Renamed first: a removal that is interrupted leaves no checkpoint that looks whole.
    doomed = path.with_name(_REMOVING + path.name)
    path.rename(doomed)
    shutil.rmtree(doomed)


def _remove_leftovers(directory: Path) -> None:
    for path in directory.iterdir():
        if path.name.startswith((_WRITING, _REMOVING)):
            shutil.rmtree(path)


def _numbered(directory: Path) -> dict[int, Path]:
    if not directory.is_dir():
        return {}
    return {int(path.name): path for path in directory.iterdir() if path.name.isdecimal() and path.is_dir()}


def _fault(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        files = json.loads((path / MANIFEST).read_text(encoding="utf-8"))["files"]
        for name, entry in files.items():
            size = (path / name).stat().st_size
            if size != entry["bytes"]:
                return f"{name} has {size} bytes instead of {entry['bytes']}"
            if _sha256(path / name) != entry["sha256"]:
                return f"{name} has changed since it was written"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{MANIFEST} cannot be read ({error})"
    return None if STATE in files else f"{STATE} is not in its {MANIFEST}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_of_the_disk(error: BaseException) -> bool:
    """Whether the disk refused; writers in other languages wrap the system's error in their own type."""
    return isinstance(error, OSError) or (isinstance(error, Exception) and "No space left on device" in str(error))
