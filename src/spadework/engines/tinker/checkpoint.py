"""What stays on this side: where a service keeps a state, and what the model's directory says of the model."""

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


@dataclass(frozen=True)
class ModelFacts:
    directory: Path
    vocabulary: int


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
        raise EngineFault(f"{path} has format {version}; this version reads format {FORMAT}")
    for name, value in identity.items():
        if saved.identity[name] != value:
            raise EngineFault(
                f"{path} is of engine.tinker.{name} {saved.identity[name]} and not {value}; "
                "give the configuration that the run was made with"
            )
    return saved


def model_facts(directory: Path, max_context_tokens: int) -> ModelFacts:
    """Vocabulary and context of the model, from its `config.json`; the weights need not be here.

    Raises EngineFault without that file, or if the context does not fit the model.
    """
    path = directory / "config.json"
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        config = {**whole, **whole.get("text_config", {})}
        vocabulary = int(config["vocab_size"])
        limit = config.get("max_position_embeddings")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineFault(
            f"{path} cannot be read ({type(error).__name__}: {error}); "
            "model.path must hold config.json and the tokenizer of the model that the service serves"
        ) from error
    if limit is not None and max_context_tokens > limit:
        raise EngineFault(
            f"model.max_context_tokens is {max_context_tokens} but {directory} was made for at most {limit} tokens; "
            f"set it to {limit} or less"
        )
    return ModelFacts(directory, vocabulary)
