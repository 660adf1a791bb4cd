"""LoRA adapters (Hu et al. 2021, arXiv 2106.09685) by peft: adding, switching off, merging, and their files.

The base weights are frozen and never written, so the base policy is the model with its adapter off, and there is no
second copy of the weights.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spadework import seeding

NAME = "default"
CONFIG, WEIGHTS, BASE = "adapter_config.json", "adapter_model.safetensors", "adapter_base.json"
PREFIX = "base_model.model."
"""What peft puts before the names of the model's modules in its files."""
DIGESTED = 4096
"""Values of each base weight that its digest looks at, evenly spaced."""


_SPECIAL = ("use_dora", "use_rslora", "modules_to_save", "rank_pattern", "alpha_pattern", "lora_bias")


class AdapterUnusable(ValueError):
    """An adapter that cannot be added to this model; the message says why and what to do."""


@dataclass(frozen=True)
class AdapterSettings:
    """``targets`` are the last parts of layers' names; none: every linear layer of the decoder."""

    rank: int
    alpha: float
    targets: Sequence[str]
    seed: int


def add(network: Any, settings: AdapterSettings) -> None:
    """Freeze the network and give its target layers W an adapter: W + (alpha / rank) * B A.

    B starts at zero, so nothing changes yet; A is drawn uniformly with the variance 1 / (3 * inputs), by name, from
    ``settings.seed``. Adapters are float32 whatever the network is. Raises AdapterUnusable.
    """
    from peft import LoraConfig, inject_adapter_in_model

    targets = _targets(network, settings.targets)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]
        target_modules=targets,
        init_lora_weights=False,
        task_type="CAUSAL_LM",
    )
    # peft draws initial weights from the global generator; ours replace them.
    with torch.random.fork_rng(devices=[]):
        inject_adapter_in_model(config, network, NAME)
    for name, parameter in weights(network).items():
        parameter.data = parameter.data.float()
        if ".lora_B." in name:
            parameter.data.zero_()
        else:
            bound = 1 / math.sqrt(parameter.shape[1])
            draws = seeding.generator(settings.seed, "adapter", name).uniform(-bound, bound, tuple(parameter.shape))
            parameter.data.copy_(torch.from_numpy(draws))


def weights(network: Any) -> dict[str, torch.nn.Parameter]:
    """The adapters' weights by name."""
    return {name: value for name, value in network.named_parameters() if ".lora_" in name}


@contextmanager
def as_at_start(network: Any, start: Mapping[str, Tensor] | None) -> Iterator[None]:
    """Within it the network is what it was when the run started.

    That is its base with the adapter off, or the base with the adapter's weights ``start`` that the run began with.
    """
    if start is None:
        with _switched_off(network):
            yield
        return
    present = weights(network)
    kept = {name: value.data for name, value in present.items()}
    for name, value in present.items():
        value.data = start[name]
    try:
        yield
    finally:
        for name, value in present.items():
            value.data = kept[name]


@contextmanager
def _switched_off(network: Any) -> Iterator[None]:
    layers = list(_layers(network).values())
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def merged_state(network: Any) -> dict[str, Tensor]:
    """The weights of the network without adapters that computes the same, by the names of the base."""
    layers = _layers(network)
    state: dict[str, Tensor] = {}
    for name, value in network.state_dict().items():
        if ".lora_" in name:
            continue
        layer = layers.get(name.removesuffix(".base_layer.weight"))
        if layer is not None and name.endswith(".base_layer.weight"):
            value = (value.float() + layer.get_delta_weight(NAME)).to(value.dtype)
        state[name.replace(".base_layer.", ".")] = value
    return state


def digest_of_base(network: Any) -> str:
    """Tells base models apart by the names, shapes and some values of their weights."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(network.named_parameters()):
        if ".lora_" in name:
            continue
        flat = value.detach().flatten()
        # Rounded, so that one base has one digest in every precision.
        some = flat[:: max(1, flat.numel() // DIGESTED)][:DIGESTED].to(torch.bfloat16).float().cpu()
        digest.update(f"{name.replace('.base_layer.', '.')} {tuple(value.shape)}\n".encode())
        digest.update(some.numpy().tobytes())
    return digest.hexdigest()


def write(directory: Path, network: Any, base: str) -> None:
    """Write the adapter as peft reads it, and which base it belongs to; ``base`` is the name of that model."""
    from safetensors.torch import save_file

    directory.mkdir(parents=True, exist_ok=True)
    config = network.peft_config[NAME]
    config.base_model_name_or_path = base
    config.save_pretrained(directory)
    tensors = {_file_name(name): value.detach().cpu().contiguous() for name, value in weights(network).items()}
    save_file(tensors, directory / WEIGHTS, metadata={"format": "pt"})
    (directory / BASE).write_text(json.dumps({"digest": digest_of_base(network)}) + "\n", encoding="utf-8")


def described_base(directory: Path, settings: AdapterSettings) -> str:
    """The name of the base that the adapter in ``directory`` says it is of; its weights are not read.

    Raises AdapterUnusable for what can be told without them.
    """
    try:
        config = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
        (directory / WEIGHTS).stat()
        base = str(config.get("base_model_name_or_path"))
    except (OSError, ValueError, AttributeError) as error:
        raise _unreadable(directory, error) from error
    _check_config(directory, config, settings)
    return base


def _unreadable(directory: Path, error: Exception) -> AdapterUnusable:
    return AdapterUnusable(
        f"model.adapter {directory} cannot be read ({error}); name a directory with {CONFIG} and {WEIGHTS}"
    )


def start_from(directory: Path, network: Any, settings: AdapterSettings) -> None:
    """Take over the weights of the adapter in ``directory``. Raises AdapterUnusable if it is not one for this model."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        config = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
        found = load_file(directory / WEIGHTS)
        base = json.loads((directory / BASE).read_text(encoding="utf-8")) if (directory / BASE).exists() else None
    except (OSError, ValueError, SafetensorError) as error:
        raise _unreadable(directory, error) from error
    if base is not None and base.get("digest") != digest_of_base(network):
        raise AdapterUnusable(
            f"the adapter in {directory} was trained on another base ({config.get('base_model_name_or_path')}); "
            "set model.path to that one"
        )
    _check_config(directory, config, settings)
    expected = {_file_name(name): parameter for name, parameter in weights(network).items()}
    _check_weights(directory, found, expected, config)
    with torch.no_grad():
        for name, parameter in expected.items():
            parameter.copy_(found[name])


def _check_config(directory: Path, config: Mapping[str, Any], settings: AdapterSettings) -> None:
    special = [key for key in _SPECIAL if config.get(key)]
    if config.get("peft_type") != "LORA" or special or config.get("bias", "none") != "none":
        what = ", ".join(special) or f"type {config.get('peft_type')}, bias {config.get('bias')}"
        raise AdapterUnusable(
            f"the adapter in {directory} is no plain LoRA ({what}); merge it into its base and give that as model.path"
        )
    for key, setting, value in (
        ("r", "model.lora_rank", settings.rank),
        ("lora_alpha", "model.lora_alpha", settings.alpha),
    ):
        if config.get(key) != value:
            raise AdapterUnusable(
                f"{setting} is {value:g} but the adapter in {directory} has {config.get(key)}; set {setting} to that"
            )


def _check_weights(
    directory: Path, found: Mapping[str, Tensor], expected: Mapping[str, Tensor], config: Mapping[str, Any]
) -> None:
    differing = sorted(set(found) ^ set(expected))
    if differing:
        where = "it alone" if differing[0] in found else "this model alone"
        raise AdapterUnusable(
            f"the adapter in {directory} is for other layers ({where} has {differing[0]}); set model.path to its base "
            f"({config.get('base_model_name_or_path')}) and model.lora_targets to its {config.get('target_modules')}"
        )
    for name, value in expected.items():
        if value.shape != found[name].shape:
            raise AdapterUnusable(
                f"the adapter in {directory} is of another base: {name} is {tuple(found[name].shape)} there and "
                f"{tuple(value.shape)} for this model; set model.path to its base"
            )


def _targets(network: Any, wanted: Sequence[str]) -> list[str]:
    decoder = network.base_model
    linear = [name for name, module in decoder.named_modules() if isinstance(module, torch.nn.Linear)]
    known = sorted({name.rpartition(".")[2] for name in linear})
    if not known:
        raise AdapterUnusable(f"{type(network).__name__} has no linear layers to adapt; set model.lora_rank=0")
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise AdapterUnusable(
            f"model.lora_targets names {unknown[0]}, which no linear layer of {type(network).__name__} is called; "
            f"there are {', '.join(known)}"
        )
    return sorted(set(wanted)) or known


def _layers(network: Any) -> dict[str, Any]:
    from peft.tuners.lora import LoraLayer

    return {name: module for name, module in network.named_modules() if isinstance(module, LoraLayer)}


def _file_name(name: str) -> str:
    return PREFIX + name.replace(f".{NAME}.", ".")
