"""What the directory of a model says of it. The weights need not be there: they are the service's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spadework.engines.base import EngineFault

PLAIN_DECODERS = ("qwen3", "qwen3_moe", "llama")
"""Model types that SkyRL's JAX backend writes out itself, without the options below and without a word about it."""


@dataclass(frozen=True)
class ModelFacts:
    directory: Path
    vocabulary: int


def model_facts(directory: Path, max_context_tokens: int, backend: str) -> ModelFacts:
    """Read `config.json` of ``directory``.

    Raises EngineFault without that file, if the context does not fit the model, or if ``backend`` is known to compute
    something else than the model.
    """
    path = directory / "config.json"
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        config = {**whole, **whole.get("text_config", {})}
        vocabulary = int(config["vocab_size"])
        limit = config.get("max_position_embeddings")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineFault(
            f"{path} cannot be read ({type(error).__name__}: {error}); "
            "model.path must hold config.json and the tokenizer of the model that the service serves"
        ) from error
    if limit is not None and max_context_tokens > limit:
        raise EngineFault(
            f"model.max_context_tokens is {max_context_tokens} but {directory} was made for at most {limit} tokens; "
            f"set it to {limit} or less"
        )
    left_out = _left_out(config) if backend == "skyrl-jax" else None
    if left_out is not None:
        raise EngineFault(
            f"the model {directory} has {left_out}, which the backend skyrl-jax leaves out without a word, so that it "
            "would sample nonsense; serve another model or use another backend"
        )
    return ModelFacts(directory, vocabulary)


def _left_out(config: Mapping[str, Any]) -> str | None:
    """What SkyRL's JAX backend does not compute of a model, or None."""
    if config.get("model_type") not in PLAIN_DECODERS:
        return None
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    rope_type = rope.get("rope_type") or rope.get("type") or "default"
    if config.get("attention_bias") or config.get("mlp_bias"):
        return "biases in its layers (attention_bias, mlp_bias)"
    if rope_type != "default":
        return f"a scaled rotary embedding ({rope_type})"
    if config.get("use_sliding_window"):
        return "a sliding window"
    return None
