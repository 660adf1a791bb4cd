"""Whether the model that a configuration names can be used: where it is, its sizes, its tokenizer and template."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from spadework.cli.errors import Refused
from spadework.cli.files import existing_parent
from spadework.cli.findings import Finding, Readiness, Verdict, importable, size, told
from spadework.cli.footprint import FLOAT_BYTES, ModelShape

if TYPE_CHECKING:
    from spadework.config import Config
    from spadework.roles.rendering import Rendering

PUBLISHED_BYTES = 2
"""Of a weight in the files of a model on the hub: bfloat16."""


def model(found: Readiness) -> Iterator[Finding]:
    """Looks at the model; ``found`` then has its shape, if anything is known of it."""
    from spadework.cli.opening import is_on_hub, present_folder
    from spadework.engines.local import gguf, hub

    path = found.config.model.path
    file = Path(path).expanduser()
    if file.is_file() and file.suffix == gguf.SUFFIX and gguf.kept(file) is None:
        yield from told("model", lambda: _to_convert(found, file))
        return
    if is_on_hub(path) and hub.cached(path) is None:
        yield from told("model", lambda: _to_download(found, path))
        return
    folder = present_folder(path)
    yield Finding("model", Verdict.OK, f"{path}: {folder}" if str(folder) != path else path)
    yield from told("model", lambda: _sizes(found, folder))
    yield from told("tokenizer", lambda: _tokenizer(found, folder))


def _to_convert(found: Readiness, file: Path) -> Iterator[Finding]:
    from spadework.cli.model_shape import read_gguf_config, shape_of

    if not importable("torch", "transformers"):
        return
    found.shape, found.shape_source = shape_of(read_gguf_config(file), file), "from the GGUF file"
    yield from _fits(found, str(file))
    needed, free = found.shape.parameters * FLOAT_BYTES, shutil.disk_usage(file.parent).free
    if needed > free or not os.access(file.parent, os.W_OK | os.X_OK):
        raise Refused(
            f"{file} would be converted beside itself, which takes {size(needed)}, and {file.parent} has {size(free)} "
            "free or cannot be written; move it to a directory with room"
        )
    yield Finding(
        "model",
        Verdict.OK,
        f"{file} is converted at its first use, which takes {size(needed)} beside it ({size(free)} are free); "
        "its tokenizer is looked at then",
    )


def _to_download(found: Readiness, path: str) -> Iterator[Finding]:
    from huggingface_hub import constants

    from spadework.cli.model_shape import PUBLISHED

    told_size = ""
    if path in PUBLISHED:
        found.shape, found.shape_source = PUBLISHED[path], "as published"
        yield from _fits(found, path)
        cache = existing_parent(Path(constants.HF_HUB_CACHE))
        needed, free = found.shape.parameters * PUBLISHED_BYTES, shutil.disk_usage(cache).free
        if needed > free:
            raise Refused(
                f"the model {path} is not on this machine, its download takes about {size(needed)} and {cache} has "
                f"{size(free)} free; set HF_HOME to a directory with room, or model.path to the directory of a model"
            )
        told_size = f" (about {size(needed)})"
    yield Finding(
        "model",
        Verdict.NOTE,
        f"the model {path} is neither a directory nor whole in the hub's cache on this machine; training downloads it"
        f"{told_size}, as `hf download {path}` does, and whether the hub gives it is not tried",
    )


def _sizes(found: Readiness, folder: Path) -> Iterator[Finding]:
    from spadework.cli.model_shape import missing_weights, read_config, shape_of

    local = found.config.engine.kind == "local"
    if local and (missing := missing_weights(folder)):
        yield Finding("model", Verdict.PROBLEM, missing)
    if not importable("torch", "transformers"):
        return
    config = read_config(folder)
    found.shape, found.shape_source = shape_of(config, folder), "config.json"
    if not local:
        from spadework.engines.tinker.model import model_facts

        model_facts(folder, found.config.model.max_context_tokens, found.config.engine.tinker.backend)
        return
    yield from _fits(found, str(folder))
    if found.shape.attention_layers == found.shape.layers:
        import torch

        from spadework.engines.local.model import cache_shape

        try:
            cache_shape(config, torch.device("cpu"), torch.float32)
        except ValueError as error:
            yield Finding("model", Verdict.PROBLEM, f"the model {folder} does not fit the local engine: {error}")


def _targets(config: Config, shape: ModelShape, name: str) -> Iterator[Finding]:
    unknown = sorted(set(config.model.lora_targets) - set(shape.linears))
    if unknown and shape.linears:
        yield Finding(
            "adapter",
            Verdict.PROBLEM,
            f"model.lora_targets names {unknown[0]}, which no linear layer of the model {name} is called; there are "
            f"{', '.join(sorted(shape.linears))}",
        )


def _fits(found: Readiness, name: str) -> Iterator[Finding]:
    """What the sizes of a model alone say."""
    shape, context = found.shape, found.config.model.max_context_tokens
    if shape is None:
        return
    yield from _targets(found.config, shape, name)
    if found.config.engine.kind == "local" and shape.attention_layers < shape.layers:
        yield Finding(
            "model",
            Verdict.PROBLEM,
            f"the model {name} does not fit the local engine: {shape.layers - shape.attention_layers} of its "
            f"{shape.layers} layers are not attention, and the engine knows decoders with attention in every layer",
        )
    if shape.context_tokens is not None and context > shape.context_tokens:
        yield Finding(
            "model",
            Verdict.PROBLEM,
            f"model.max_context_tokens is {context} but the model {name} was made for at most {shape.context_tokens} "
            f"tokens; set it to {shape.context_tokens} or less",
        )


def _tokenizer(found: Readiness, folder: Path) -> Iterator[Finding]:
    from spadework.cli.opening import model_name, open_tokenizer
    from spadework.config import in_words
    from spadework.roles.choosing import open_rendering
    from spadework.roles.thinking import require_thinking
    from spadework.roles.tool_rendering import tools_of

    config = found.config
    if not importable("transformers", "renderers"):
        return
    tokenizer = open_tokenizer(folder)
    tokens = len(tokenizer)
    if found.shape is not None and tokens > found.shape.vocabulary:
        yield Finding(
            "tokenizer",
            Verdict.PROBLEM,
            f"the tokenizer of {folder} has {tokens} tokens but the model only {found.shape.vocabulary}; use the "
            "tokenizer that belongs to the model",
        )
    rendering = open_rendering(tokenizer, model_name(config, folder), config.agent.thinking)
    require_thinking(rendering, config.agent)
    tools = tools_of(rendering, config.agent.action_format)
    thinks = in_words(config.agent.thinking)
    calls = f", calls as {tools.format}" if tools is not None else ""
    yield Finding("tokenizer", Verdict.OK, f"{tokens} tokens, template of {rendering.name}, thinking {thinks}{calls}")
    yield from _room(config, rendering)


def _room(config: Config, rendering: Rendering) -> Iterator[Finding]:
    """Whether the longest prompt of the designer leaves room for its longest reply."""
    from spadework.curriculum.documents import Document
    from spadework.curriculum.memory import Memory
    from spadework.roles.prompts import prompt_style

    prompts = prompt_style(config.model.prompts, rendering.encode, config.agent.action_format)
    blank = Document("none", "", "a")
    longest = max(config.curriculum.skills, key=len)
    fixed = len(
        rendering.first_prompt(
            prompts.designer_messages(longest, blank, Memory(positives=(), negatives=()), config.designer.difficulty)
        )
    )
    if config.model.prompts == "seed" or config.roles.designer != "self":
        return  # it shows keywords, not documents; a frozen designer's context is its server's
    memory = config.memory.max_tokens if config.memory.enabled else 0
    prompt = fixed + config.corpus.max_tokens + memory
    room = config.model.max_context_tokens - prompt
    if room >= config.designer.max_tokens:
        yield Finding(
            "prompts",
            Verdict.OK,
            f"the longest prompt of the designer has {prompt} tokens and leaves room for designer.max_tokens "
            f"({config.designer.max_tokens})",
        )
    else:
        yield Finding(
            "prompts",
            Verdict.NOTE,
            f"the longest prompt of the designer has {prompt} tokens ({fixed} without document and memory), and a "
            f"context of {config.model.max_context_tokens} then leaves {max(0, room)} of the "
            f"{config.designer.max_tokens} tokens of designer.max_tokens; lower corpus.max_tokens or "
            "memory.max_tokens, or raise model.max_context_tokens",
        )
