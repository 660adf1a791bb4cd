"""The file of a checkpoint: where the service keeps weights and optimiser, and of what they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spadework.engines.base import EngineFault

FORMAT = 1
STATE = "tinker.json"


@dataclass(frozen=True)
class Saved:
    """``path`` is the service's name for weights and optimiser; ``identity`` says of what model and backend."""

    identity: Mapping[str, Any]
    path: str
    policy_version: int


def write(directory: Path, saved: Saved) -> None:
    """Raises OSError if the disk refuses."""
    directory.mkdir(parents=True, exist_ok=True)
    state = {"format": FORMAT, **saved.identity, "path": saved.path, "policy_version": saved.policy_version}
    (directory / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")


def read(directory: Path, identity: Mapping[str, Any]) -> Saved:
    """Read what `write` wrote. Raises EngineFault for a missing or damaged file, or one of another ``identity``."""
    path = directory / STATE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        saved = Saved({name: state[name] for name in identity}, str(state["path"]), int(state["policy_version"]))
        version = state["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineFault(
            f"{path} cannot be read ({type(error).__name__}: {error}); restore the run directory from a copy"
        ) from error
    if version != FORMAT:
        raise EngineFault(
            f"{path} has format {version}; this version reads format {FORMAT}; "
            "use the version that wrote it or start a new run"
        )
    for name, value in identity.items():
        if saved.identity[name] != value:
            raise EngineFault(
                f"{path} is of engine.tinker.{name} {saved.identity[name]} and not {value}; "
                "give the configuration that the run was made with"
            )
    return saved
