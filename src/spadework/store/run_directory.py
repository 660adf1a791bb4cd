"""The directory of a run: what is in it, who may write it, and when it may be continued.

config.json       the resolved configuration
run.json          format version, package version, when it was created, and of each start how programs were isolated;
                  written last: it marks a complete directory
lock              held by the process that writes
pool.sqlite       environments, attempts, episodes and what was measured of them
replies.sqlite    every reply that the endpoint gave, if the run uses one
metrics.jsonl     one line per iteration
tensorboard/      the same, as event files
checkpoints/      one directory per checkpointed iteration
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from pydantic import ValidationError

from spadework.config import Config
from spadework.sandbox.layers import Layer
from spadework.store.atomic import TEMPORARY_SUFFIX, write_atomically
from spadework.store.errors import StoreError

FORMAT_VERSION = 1
MAY_CHANGE = (
    *("iterations", "checkpoint.", "sandbox.address", "sandbox.actors"),
    *("endpoint.base_url", "endpoint.key_variable", "endpoint.concurrency", "endpoint.requests_per_minute"),
    *("endpoint.retries", "endpoint.timeout_s", "endpoint.price_", "endpoint.budget"),
    *("engine.tinker.base_url", "engine.tinker.patience_s", "engine.tinker.answer_timeout_s"),
)
"""Keys (or their prefixes) that say how long or where a run goes on, not what it is: they may differ later."""

_CONFIG = "config.json"
_RUN = "run.json"
_LOCK = "lock"
_ABSENT = object()


@dataclass(frozen=True)
class Start:
    """One start or continuation of a run. ``isolation`` has, by layer, why it was not in force; empty if it was."""

    at: str
    isolation: Mapping[str, str]


class RunDirectory:
    """An open run directory. ``is_new`` says whether this call created it; ``config`` is the one in force.

    Opened by `create_or_open` it is locked until `close`; opened by `open_readonly` it is not, and must not be written.
    """

    def __init__(self, path: Path, config: Config, *, is_new: bool, created: str, lock: IO[str] | None) -> None:
        self.path = path
        self.config = config
        self.is_new = is_new
        self.created = created
        self._lock = lock

    @classmethod
    def create_or_open(cls, path: Path, config: Config) -> Self:
        """Start a run in ``path``, or continue the one that is there with the same configuration.

        Raises StoreError if ``path`` holds something else, a run of another format or configuration, or a run that
        another process is writing.
        """
        _require_usable(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(path)
        except OSError as error:
            raise StoreError(f"the run directory {path} cannot be written: {error}; choose another place") from error
        try:
            is_new = not (path / _RUN).exists()
            if is_new:
                _write_json(path / _CONFIG, config.model_dump(mode="json"))
                created = datetime.now(UTC).isoformat(timespec="seconds")
                head = {"format": FORMAT_VERSION, "spadework": version("spadework"), "created": created}
                _write_json(path / _RUN, head)
            else:
                created = str(_read_head(path)["created"])
                before, now = _read_json(path / _CONFIG), config.model_dump(mode="json")
                require_same(path, before, now)
                if before != now:
                    _write_json(path / _CONFIG, now)
        except OSError as error:
            lock.close()
            raise StoreError(f"the run directory {path} cannot be written: {error}; choose another place") from error
        except BaseException:
            lock.close()
            raise
        return cls(path, config, is_new=is_new, created=created, lock=lock)

    @classmethod
    def open_readonly(cls, path: Path) -> Self:
        """Look at a run, also while it is being written. Raises StoreError if there is none that can be read."""
        head = _read_head(path)
        try:
            config = Config.model_validate(_read_json(path / _CONFIG))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise StoreError(
                f"the configuration {path / _CONFIG} does not suit this spadework ({key}: {first['msg']}); "
                f"open the run with spadework {head['spadework']}"
            ) from error
        return cls(path, config, is_new=False, created=str(head["created"]), lock=None)

    @property
    def pool(self) -> Path:
        return self.path / "pool.sqlite"

    @property
    def replies(self) -> Path:
        return self.path / "replies.sqlite"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def record_start(self, isolation: Iterable[Layer]) -> None:
        """Note that the run is started or continued now, with these layers around its programs. Raises StoreError."""
        layers = {layer.name.value: layer.absent_because for layer in isolation}
        start = Start(datetime.now(UTC).isoformat(timespec="seconds"), layers)
        head = _read_head(self.path)
        try:
            _write_json(self.path / _RUN, {**head, "starts": [*head.get("starts", ()), asdict(start)]})
        except OSError as error:
            raise StoreError(f"the run directory {self.path} cannot be written: {error}; make room for it") from error

    def starts(self) -> tuple[Start, ...]:
        """Every recorded start, the first first. Raises StoreError."""
        return tuple(Start(**start) for start in _read_head(self.path).get("starts", ()))

    def close(self) -> None:
        """Let another process write the run."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _require_usable(path: Path) -> None:
    """A run, an unfinished creation of one, an empty directory or nothing at all."""
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} is a file; give a directory for the run")
    if not path.is_dir() or (path / _RUN).exists():
        return
    ours = {_LOCK, _CONFIG, _CONFIG + TEMPORARY_SUFFIX, _RUN + TEMPORARY_SUFFIX}
    foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in ours)
    if foreign:
        raise StoreError(
            f"{path} is not a run directory and holds other files ({', '.join(foreign[:3])}); give an empty or new one"
        )


def _take_lock(path: Path) -> IO[str]:
    file = (path / _LOCK).open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another process"
        file.close()
        raise StoreError(
            f"the run {path} is being written by {holder}; wait for it, stop it, or give another directory"
        ) from None
    except BaseException:
        file.close()
        raise
    file.truncate(0)
    file.write(f"process {os.getpid()} on {os.uname().nodename}\n")
    file.flush()
    return file


def _read_head(path: Path) -> dict[str, Any]:
    if not (path / _RUN).is_file():
        raise StoreError(f"{path} is not a run directory (it has no {_RUN}); give the directory of a run")
    head = _read_json(path / _RUN)
    found = head.get("format")
    if found != FORMAT_VERSION:
        raise StoreError(
            f"the run {path} has format {found} (written by spadework {head.get('spadework')}) and this spadework "
            f"reads format {FORMAT_VERSION}; use the version that wrote it or start a new run"
        )
    return head


def require_same(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises StoreError if the run in ``path`` cannot be continued with the configuration ``now``."""
    old, new = dict(_flat(before)), dict(_flat(now))
    for key in [*new, *(key for key in old if key not in new)]:
        if old.get(key, _ABSENT) == new.get(key, _ABSENT) or key.startswith(MAY_CHANGE):
            continue
        raise StoreError(
            f"the run {path} has {key} = {_shown(old, key)} but is now given {_shown(new, key)}; "
            "give the same configuration to continue it, or another directory to start a new run"
        )


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _shown(values: Mapping[str, Any], key: str) -> str:
    return json.dumps(values[key]) if key in values else "nothing"


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    write_atomically(path, (json.dumps(value, indent=2) + "\n").encode())


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}; restore the run directory from a copy") from error
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value
    raise StoreError(f"{path} is not readable JSON; restore the run directory from a copy or start a new run")
