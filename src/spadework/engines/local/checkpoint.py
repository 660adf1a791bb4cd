"""Files of a saved engine: weights, optimiser moments, and the counts that belong to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

FORMAT = 1
WEIGHTS, OPTIMISER, STATE = "weights.safetensors", "optimiser.safetensors", "engine.json"


class CheckpointUnusable(ValueError):
    """A saved engine that cannot be loaded; the message says which file and why."""


@dataclass(frozen=True)
class Saved:
    weights: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    policy_version: int


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
    state = {"format": FORMAT, "policy_version": saved.policy_version}
    (directory / STATE).write_text(json.dumps(state) + "\n", encoding="utf-8")


def read(directory: Path) -> Saved:
    """Read what `write` wrote. Raises CheckpointUnusable for missing, damaged or foreign files."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = directory / STATE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["format"] != FORMAT:
            raise CheckpointUnusable(f"{path} has format {state['format']}; this version reads format {FORMAT}")
        version = int(state["policy_version"])
        path = directory / WEIGHTS
        weights = load_file(path)
        path = directory / OPTIMISER
        return Saved(weights, load_file(path), version)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, CheckpointUnusable):
            raise
        raise CheckpointUnusable(f"{path} cannot be read ({error}); use an earlier checkpoint") from error


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
