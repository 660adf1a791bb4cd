"""Files of a saved engine: weights, optimiser moments, and the counts that belong to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

FORMAT, ENGINE = 1, "local"
WEIGHTS, OPTIMISER, STATE = "weights.safetensors", "optimiser.safetensors", "engine.json"


class CheckpointUnusable(ValueError):
    """A saved engine that cannot be loaded; the message says which file and why."""


@dataclass(frozen=True)
class Saved:
    """``base`` is the digest of the base that ``weights`` are an adapter of; None if they are all of the model's."""

    weights: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    policy_version: int
    base: str | None = None


def write(directory: Path, saved: Saved) -> None:
    """Write all files; an interrupted write leaves no `engine.json`. Raises OSError if the disk refuses."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    directory.mkdir(parents=True, exist_ok=True)
    (directory / STATE).unlink(missing_ok=True)
    for name, tensors in ((WEIGHTS, saved.weights), (OPTIMISER, saved.optimiser)):
        try:
            save_file({key: value.contiguous() for key, value in tensors.items()}, directory / name)
        except SafetensorError as error:
            raise OSError(f"cannot write {directory / name}: {error}") from error
    state = {"format": FORMAT, "engine": ENGINE, "policy_version": saved.policy_version, "base": saved.base}
    (directory / STATE).write_text(json.dumps(state) + "\n", encoding="utf-8")


def read(directory: Path) -> Saved:
    """Read what `write` wrote. Raises CheckpointUnusable for missing, damaged or foreign files."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = directory / STATE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state.get("engine", ENGINE) != ENGINE:
            raise CheckpointUnusable(f"{path} is of the engine {state['engine']}; set engine.kind to it")
        if state["format"] != FORMAT:
            raise CheckpointUnusable(
                f"{path} has format {state['format']}; this version reads format {FORMAT}; "
                "use the version that wrote it or start a new run"
            )
        version = int(state["policy_version"])
        path = directory / WEIGHTS
        weights = load_file(path)
        path = directory / OPTIMISER
        return Saved(weights, load_file(path), version, state.get("base"))
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, CheckpointUnusable):
            raise
        raise CheckpointUnusable(f"{path} cannot be read ({error}); use an earlier checkpoint") from error


def check_base(saved: Saved, base: str | None, source: Path) -> None:
    """Raises CheckpointUnusable unless ``saved`` is of the same kind (adapter or not), and of the base ``base``."""
    if saved.base == base:
        return
    if saved.base is None:
        raise CheckpointUnusable(f"{source} holds all weights and no adapter; set model.lora_rank=0 to continue it")
    if base is None:
        raise CheckpointUnusable(f"{source} holds an adapter; set model.lora_rank to its rank to continue it")
    raise CheckpointUnusable(
        f"{source} holds an adapter of another base; set model.path to the model it was trained on"
    )


def restore_weights(parameters: Mapping[str, torch.nn.Parameter], weights: Mapping[str, Tensor], source: Path) -> None:
    """Copy saved weights into the model. Raises CheckpointUnusable if names, shapes or types differ."""
    if set(parameters) != set(weights):
        differing = sorted(set(parameters) ^ set(weights))
        raise CheckpointUnusable(f"{source / WEIGHTS} is of another model: {differing[0]} is on one side only")
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape or parameter.dtype != weights[name].dtype:
            raise CheckpointUnusable(f"{source / WEIGHTS} is of another model: {name} has another shape or type")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
