"""A model directory as the local engine uses it: hidden states, logits, and proof that it may be used that way."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from spadework.engines.local.attention import MASKED, NAME, Window, register
from spadework.engines.local.kvcache import CacheShape
from spadework.engines.local.memory import is_full
from spadework.engines.local.placement import Placement
from spadework.errors import first_line

PROBE_TOLERANCES = {torch.float32: 1e-3, torch.bfloat16: 0.3}
"""Largest difference of log-probabilities between the model's own forward pass and ours when a model is opened.
bfloat16 keeps eight bits, so that only coarse differences can be told from rounding."""


class ModelUnusable(ValueError):
    """A model directory that the local engine cannot use; the message says what is missing and what to do."""


class Model:
    """A decoder and its output layer. Dropout is always off, so that training scores what sampling drew from."""

    def __init__(self, network: Any, max_context_tokens: int) -> None:
        from transformers.modeling_layers import GradientCheckpointingLayer

        self.network = network.eval()
        self.max_context_tokens = max_context_tokens
        self._decoder = network.base_model
        self._head = network.get_output_embeddings()
        # Without it the model would build a cache of its own beside ours.
        known = inspect.signature(self._decoder.forward).parameters
        self._settings: dict[str, Any] = {"use_cache": False} if "use_cache" in known else {}
        self._settings["longest_sequence"] = max_context_tokens
        self._layers = [part for part in self._decoder.modules() if isinstance(part, GradientCheckpointingLayer)]
        self._feed_forward = getattr(self._layers[-1], "mlp", None) if self._layers else None

    @property
    def vocabulary(self) -> int:
        return int(self._head.weight.shape[0])

    @property
    def device(self) -> torch.device:
        device: torch.device = self._head.weight.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """Of hidden states; logits are float32."""
        dtype: torch.dtype = self._head.weight.dtype
        return dtype

    def hidden(self, ids_BQ: Tensor, positions_BQ: Tensor, window: Window | None = None) -> Tensor:
        """Hidden states (BQE) before the output layer. Without a window every row is one whole sequence from 0."""
        out = self._decoder(input_ids=ids_BQ, position_ids=positions_BQ, window=window, **self._settings)
        hidden: Tensor = out.last_hidden_state
        return hidden

    def logits(self, hidden_NE: Tensor) -> Tensor:
        logits: Tensor = self._head(hidden_NE)
        return logits.float()

    def network_logits(self, ids_BQ: Tensor, positions_BQ: Tensor) -> Tensor:
        """Logits by the network's own forward pass, with whatever it does after its output layer."""
        out = self.network(input_ids=ids_BQ, position_ids=positions_BQ, **self._settings)
        logits: Tensor = out.logits
        return logits.float()

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """Every weight that is trained once, by name; tied weights appear under one name."""
        return {name: value for name, value in self.network.named_parameters() if value.requires_grad}

    def frozen_copy(self) -> Model:
        return Model(copy.deepcopy(self.network).requires_grad_(False), self.max_context_tokens)

    @contextmanager
    def last_layer_at(self, flat_N: Tensor) -> Iterator[None]:
        """Within, hidden states mean something at the positions ``flat_N`` of the flattened batch alone.

        The last layer's feed-forward part is then computed for those only: nothing else depends on its results. The
        backward pass belongs within too, since it may compute layers again.
        """
        if self._feed_forward is None:
            yield
            return
        shapes: list[torch.Size] = []

        def gather(_: torch.nn.Module, inputs: tuple[Tensor]) -> Tensor:
            shapes.append(inputs[0].shape)
            return inputs[0].flatten(0, 1).index_select(0, flat_N)[None]

        def scatter(_: torch.nn.Module, __: tuple[Tensor], out_1NE: Tensor) -> Tensor:
            whole_FE = out_1NE.new_zeros(shapes[-1]).flatten(0, 1)
            return whole_FE.index_copy(0, flat_N, out_1NE[0]).view(shapes[-1])

        last = self._feed_forward
        hooks = [last.register_forward_pre_hook(gather), last.register_forward_hook(scatter)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def recompute_layers(self) -> None:
        """From now on keep a layer's input alone for the backward pass, and compute the rest again.

        Raises ModelUnusable if the network does not say what its layers are.
        """
        if not self._layers:
            raise ModelUnusable(
                f"{type(self.network).__name__} has no layers that can be computed again; "
                "set engine.gradient_checkpointing=false"
            )
        for layer in self._layers:
            layer.forward = partial(_recomputed, layer.forward)


def _recomputed(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    # Dropout is off, so there are no draws to repeat.
    return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)


@dataclass(frozen=True)
class OpenedModel:
    model: Model
    tokenizer: Any
    cache_shape: CacheShape
    directory: Path


def open_model(directory: Path, max_context_tokens: int, placement: Placement) -> OpenedModel:
    """Load weights and tokenizer from ``directory``; nothing is downloaded.

    Raises ModelUnusable naming what is missing, or what about the architecture does not fit.
    """
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    if not directory.is_dir():
        raise ModelUnusable(f"model.path {directory} is not a directory; name one that holds a model")
    if not (directory / "config.json").is_file():
        raise ModelUnusable(f"{directory} has no config.json; name a directory that `save_pretrained` wrote")
    if not any(directory.glob("*.safetensors")) and not any(directory.glob("pytorch_model*.bin")):
        raise ModelUnusable(f"{directory} has no weights (model.safetensors); copy them beside its config.json")
    tokenizer = _open_tokenizer(directory)
    register()
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        config = AutoConfig.from_pretrained(directory, local_files_only=True)
        network: Any = AutoModelForCausalLM.from_pretrained(
            directory, dtype=placement.dtype, attn_implementation=NAME, local_files_only=True
        )
        network.to(placement.device)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        if is_full(error):
            raise
        raise ModelUnusable(f"{directory} cannot be loaded as a causal language model: {first_line(error)}") from error
    limit = getattr(config, "max_position_embeddings", None)
    if limit is not None and max_context_tokens > limit:
        raise ModelUnusable(
            f"model.max_context_tokens is {max_context_tokens} but {directory} was made for at most {limit} tokens; "
            f"set it to {limit} or less"
        )
    model = Model(network, max_context_tokens)
    if len(tokenizer) > model.vocabulary:
        raise ModelUnusable(
            f"the tokenizer of {directory} has {len(tokenizer)} tokens but the model only {model.vocabulary}; "
            "use the tokenizer that belongs to the model"
        )
    return OpenedModel(model, tokenizer, _probe(model, directory), directory.resolve())


def _open_tokenizer(directory: Path) -> Any:
    from transformers import AutoTokenizer

    if not (directory / "tokenizer.json").is_file() and not (directory / "tokenizer_config.json").is_file():
        raise ModelUnusable(f"{directory} has no tokenizer (tokenizer.json, tokenizer_config.json); copy it there")
    try:
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ModelUnusable(f"the tokenizer of {directory} cannot be loaded: {first_line(error)}") from error
    if not tokenizer.chat_template:
        raise ModelUnusable(f"the tokenizer of {directory} has no chat template; add a chat_template.jinja to it")
    return tokenizer


def _probe(model: Model, directory: Path) -> CacheShape:
    """The size of the model's cache, after one proof that cached, ragged passes give the model's own numbers.

    Models with other attention, a transform after the output layer or layers of unequal shape are refused here, with a
    reason, instead of being trained on wrong probabilities.
    """
    device = model.device
    ids_BQ = torch.arange(12, device=device).view(2, 6) % model.vocabulary
    positions_BQ = torch.arange(6, device=device).expand(2, 6)
    with torch.inference_mode():
        try:
            shape = cache_shape(model.network.config.get_text_config(), device, model.dtype)
            wanted = model.network_logits(ids_BQ, positions_BQ).log_softmax(-1)
            plain = model.logits(model.hidden(ids_BQ, positions_BQ)).log_softmax(-1)
            some_N = torch.tensor([0, 4, 11], device=device)
            with model.last_layer_at(some_N):
                some_NE = model.hidden(ids_BQ, positions_BQ).flatten(0, 1).index_select(0, some_N)
            some = model.logits(some_NE).log_softmax(-1)
            cache = shape.zeros(shape.layers, 2, 2, shape.heads, 9, shape.width)
            model.hidden(ids_BQ[:, :4], positions_BQ[:, :4], Window(cache, 0, None))
            mask = torch.full((2, 1, 2, 9), MASKED, device=device, dtype=model.dtype)
            mask[..., :4] = 0.0
            mask[..., 7:] = mask[0, 0, :, 7:].triu(1)
            hidden = model.hidden(ids_BQ[:, 4:], positions_BQ[:, 4:], Window(cache, 7, mask))
            cached = model.logits(hidden).log_softmax(-1)
        except (TypeError, ValueError, RuntimeError, IndexError, AttributeError) as error:
            if is_full(error):
                raise
            raise ModelUnusable(
                f"{directory} ({type(model.network).__name__}) does not fit the local engine: {first_line(error)}"
            ) from error
    pairs = [(wanted, plain), (wanted[:, 4:], cached), (wanted.flatten(0, 1).index_select(0, some_N), some)]
    worst = max(float((one - other).abs().max()) for one, other in pairs)
    if not worst <= PROBE_TOLERANCES[model.dtype]:
        raise ModelUnusable(
            f"{directory} ({type(model.network).__name__}) gives other log-probabilities (by {worst:.2g}) when its "
            "keys and values are reused; the local engine needs a decoder with plain causal attention"
        )
    return shape


def cache_shape(config: Any, device: torch.device, dtype: torch.dtype) -> CacheShape:
    """From the configuration of a text model. Raises ValueError for layers that the local engine does not know."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if not kinds <= {"full_attention", "sliding_attention"}:
        raise ValueError(
            f"its layers are of the kinds {', '.join(sorted(kinds))}; the local engine knows full attention"
        )
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope in ("dynamic", "longrope"):
        raise ValueError(f"its rotary embedding ({rope}) changes with the length, so keys cannot be reused")
    heads = config.num_attention_heads
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    return CacheShape(config.num_hidden_layers, key_heads, width, device, dtype)
