"""The sizes of a model, from its directory without its weights, or as published for the models of the presets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from spadework.cli.errors import Refused
from spadework.cli.footprint import Linears, ModelShape
from spadework.errors import first_line

if TYPE_CHECKING:
    from transformers import PretrainedConfig


def _linears(layers: int, **sides: tuple[int, int]) -> dict[str, Linears]:
    """From the inputs and outputs of one layer of each name."""
    return {name: Linears(layers, layers * inputs, layers * outputs) for name, (inputs, outputs) in sides.items()}


def _attention(hidden: int, queries: int, keys: int) -> dict[str, tuple[int, int]]:
    return {
        "q_proj": (hidden, queries),
        "k_proj": (hidden, keys),
        "v_proj": (hidden, keys),
        "o_proj": (queries, hidden),
    }


def _gated(hidden: int, intermediate: int) -> dict[str, tuple[int, int]]:
    return {
        "gate_proj": (hidden, intermediate),
        "up_proj": (hidden, intermediate),
        "down_proj": (intermediate, hidden),
    }


_QWEN3_4B_LINEARS = _linears(36, **_attention(2560, 4096, 1024), **_gated(2560, 9728))
_QWEN3_8B_LINEARS = _linears(36, **_attention(4096, 4096, 1024), **_gated(4096, 12_288))
_QWEN3_30B_LINEARS = _linears(48, **_attention(2048, 4096, 512))
"""Its experts lie in tables, not in linear layers."""
_QWEN3_4B = ModelShape(4_022_468_096, 151_936, 262_144, 36, 36, 2560, 32, 8, 128, 9728, _QWEN3_4B_LINEARS)
_QWEN3_8B = ModelShape(8_190_735_360, 151_936, 40_960, 36, 36, 4096, 32, 8, 128, 12_288, _QWEN3_8B_LINEARS)
_QWEN3_30B = ModelShape(30_532_122_624, 151_936, 262_144, 48, 48, 2048, 32, 4, 128, 8 * 768, _QWEN3_30B_LINEARS)
_NEMOTRON_3_30B = ModelShape(31_577_937_344, 131_072, 262_144, 52, 6, 2688, 32, 2, 128, 6 * 1856 + 3712, {})
PUBLISHED: Mapping[str, ModelShape] = MappingProxyType(
    {
        "Qwen/Qwen3-4B-Instruct-2507": _QWEN3_4B,
        "Qwen/Qwen3-8B": _QWEN3_8B,
        "Qwen/Qwen3-30B-A3B-Instruct-2507": _QWEN3_30B,
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": _NEMOTRON_3_30B,
    }
)
"""By name on the hub, for plans of models that are not here. From the models' own config.json."""

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
INDEX = "model.safetensors.index.json"


def read_config(folder: Path) -> PretrainedConfig:
    """The configuration of the text model in ``folder``. Raises Refused."""
    from transformers import AutoConfig

    if not (folder / "config.json").is_file():
        raise Refused(f"the model {folder} has no config.json; name a directory that `save_pretrained` wrote")
    try:
        config: PretrainedConfig = AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config()
    except (OSError, ValueError, KeyError) as error:
        raise Refused(f"the configuration {folder / 'config.json'} cannot be read: {first_line(error)}") from error
    return config


def read_gguf_config(file: Path) -> PretrainedConfig:
    """The configuration of the model in the GGUF file, without its weights. Raises Refused and MissingExtra."""
    from transformers import AutoConfig

    from spadework.cli.findings import importable
    from spadework.engines.open import MissingExtra

    if not importable("gguf"):
        raise MissingExtra(f"{file} needs gguf, which is not installed: pip install 'spadework[gguf]'")
    try:
        config: PretrainedConfig = AutoConfig.from_pretrained(
            file.parent, gguf_file=file.name, local_files_only=True
        ).get_text_config()
    # Damaged files fail in whatever way their bytes happen to mislead the reader.
    except Exception as error:
        raise Refused(
            f"{file} cannot be read ({first_line(error)}); take a GGUF file of a model that transformers can read, "
            "or its safetensors"
        ) from error
    return config


def shape_of(config: PretrainedConfig, folder: Path) -> ModelShape:
    """The sizes of a model of ``config``: its layers are made without memory, and counted. Raises Refused."""
    import torch
    from transformers import AutoModelForCausalLM

    try:
        with torch.device("meta"):
            network = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    except (ValueError, KeyError, TypeError, ImportError, RuntimeError) as error:
        raise Refused(
            f"the model {folder} is no causal language model that transformers knows: {first_line(error)}"
        ) from error
    heads = config.num_attention_heads
    kinds: list[str] = list(getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers)
    return ModelShape(
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        vocabulary=config.vocab_size,
        context_tokens=getattr(config, "max_position_embeddings", None),
        layers=len(kinds),
        attention_layers=sum("attention" in kind and kind != "linear_attention" for kind in kinds),
        hidden=config.hidden_size,
        heads=heads,
        key_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_width=getattr(config, "head_dim", None) or config.hidden_size // heads,
        intermediate=_intermediate(config),
        linears=_counted(network.base_model),
    )


def _counted(decoder: Any) -> dict[str, Linears]:
    """The layers that `engines.local.adapter` would give an adapter to."""
    import torch

    found: dict[str, Linears] = {}
    for path, module in decoder.named_modules():
        if isinstance(module, torch.nn.Linear):
            name = path.rpartition(".")[2]
            before = found.get(name, Linears(0, 0, 0))
            found[name] = Linears(
                before.layers + 1, before.inputs + module.in_features, before.outputs + module.out_features
            )
    return found


def missing_weights(folder: Path) -> str:
    """What of the weights is not in ``folder``: a sentence, empty if all is there."""
    import json

    index = folder / INDEX
    if not index.is_file():
        found = any(any(folder.glob(pattern)) for pattern in WEIGHTS)
        return (
            "" if found else f"the model {folder} has no weights (model.safetensors); copy them beside its config.json"
        )
    try:
        names: set[str] = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"{index} cannot be read; copy it anew"
    absent = sorted(name for name in names if not (folder / name).is_file())
    return (
        f"the model {folder} lacks {len(absent)} of {len(names)} files of weights, first {absent[0]}" if absent else ""
    )


def _intermediate(config: Any) -> int:
    """The feed-forward width that one token passes through."""
    experts = getattr(config, "num_experts_per_tok", None)
    width = getattr(config, "moe_intermediate_size", None)
    if experts and width:
        shared = getattr(config, "moe_shared_expert_intermediate_size", None) or 0
        return int(experts * width + shared)
    return int(config.intermediate_size)
