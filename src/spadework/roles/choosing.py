"""Which rendering a tokenizer gets: a hand-written one that agrees with its template, or the template itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from spadework.config import Thinking
from spadework.roles.channels import open_channels, speaks_in_channels
from spadework.roles.rendering import (
    OPEN_THINKING,
    OPENING,
    PROBE_TOOL,
    REPLIES,
    SWITCHES,
    SYSTEM_OPENING,
    THINKING_REPLIES,
    Rendering,
    RenderingRefused,
    Tokenizer,
    as_dicts,
    tells_apart,
)

if TYPE_CHECKING:
    from renderers import Renderer, RendererConfig

_DAY = (("%Y", "2024"), ("%m", "07"), ("%d", "26"), ("%b", "Jul"), ("%B", "July"))
_CLOCK = "strftime_now"
_STOPPED_CLOCK = (
    f"{{%- macro {_CLOCK}(format) -%}}{{{{ format{''.join(f'|replace({a!r}, {b!r})' for a, b in _DAY)} }}}}"
    "{%- endmacro %}\n"
)
"""Stands before a template that asks for the day (gpt-oss), with which equal runs would differ from day to day."""

_FAMILIES = ("qwen3", "nemotron-3", "llama-3")
"""Renderers that are tried for any model; one is taken only if it renders as the model's own template does."""


def open_rendering(tokenizer: Tokenizer, model: str | Path, thinking: Thinking) -> Rendering:
    """The rendering of ``model`` (a name or a directory), proven to be append-only.

    A hand-written renderer is taken if it renders the opening of a conversation exactly as the tokenizer's own
    template does; otherwise the template itself is. ``thinking`` is passed on to templates that know it; an effort is
    asked of those that know efforts.

    Raises RenderingRefused, naming the template and the remedy, if there is no template or it rewrites its history.
    """
    if not tokenizer.chat_template:
        raise RenderingRefused(
            f"{model} has no chat template: add `chat_template` to its tokenizer, or use an instruction-tuned model"
        )
    if isinstance(thinking, str) and not tells_apart(
        tokenizer, "reasoning_effort", ("low", "high"), enable_thinking=True
    ):
        raise RenderingRefused(
            f"the chat template of {model} knows no efforts of thinking, so agent.thinking = {thinking!r} cannot be "
            "asked of it; set it to true or false"
        )
    if speaks_in_channels(tokenizer):
        if not thinking:
            raise RenderingRefused(
                f"the model {model} thinks in a channel of its own, which agent.thinking = false cannot switch off; "
                'set it to "low", "medium" or "high"'
            )
        return open_channels(tokenizer, _of_template(tokenizer, thinking), str(model))
    if not thinking and _opens_thinking(tokenizer):
        raise RenderingRefused(
            f"the chat template of {model} opens the thinking of every reply, which agent.thinking = false cannot "
            "switch off; set it to true, or use a template that leaves thinking out"
        )
    for config in _hand_written(str(model), thinking) if isinstance(thinking, bool) else ():
        renderer = _matching(tokenizer, config, bool(thinking))
        if renderer is not None:
            rendering = Rendering(tokenizer, renderer, f"{model} ({config.name} renderer)")
            rendering.prove_append_only(THINKING_REPLIES if rendering.opens_thinking else REPLIES)
            return rendering
    rendering = Rendering(tokenizer, _of_template(tokenizer, thinking), str(model))
    rendering.prove_append_only(THINKING_REPLIES if thinking else REPLIES)
    return rendering


def _of_template(tokenizer: Tokenizer, thinking: Thinking) -> Renderer:
    """The renderer that asks the tokenizer's own template."""
    renderers = _package()
    options = {"enable_thinking": bool(thinking), **SWITCHES}
    if isinstance(thinking, str):
        options["reasoning_effort"] = thinking
    if isinstance(tokenizer.chat_template, str) and _CLOCK in tokenizer.chat_template:
        options["chat_template"] = _STOPPED_CLOCK + tokenizer.chat_template
    config = renderers.DefaultRendererConfig(**options)
    renderer: Renderer = renderers.create_renderer(tokenizer, config)
    return renderer


def _opens_thinking(tokenizer: Tokenizer) -> bool:
    """Whether replies start inside the thinking although it is off."""
    options = {"add_generation_prompt": True, "tokenize": False, "enable_thinking": False, **SWITCHES}
    try:
        text: str = tokenizer.apply_chat_template(as_dicts(OPENING), **options)
    except TemplateError:
        return False  # opening the rendering says so
    return text.rstrip().endswith(OPEN_THINKING)


def _hand_written(model: str, thinking: bool) -> Iterator[RendererConfig]:
    """Configurations to try: the one registered for the model's name, then those that many models share."""
    renderers = _package()
    registered = renderers.base.MODEL_RENDERER_MAP.get(model)
    for name in dict.fromkeys((*([registered] if registered else ()), *_FAMILIES)):
        blank = renderers.config_from_name(name)
        fields = type(blank).template_field_names()
        options: dict[str, object] = {"thinking_retention": "all"}
        options |= {switch: value for switch, value in SWITCHES.items() if switch in fields}
        if "enable_thinking" not in fields:
            yield type(blank)(**options)
            continue
        # A template without a switch renders like one whose thinking is on: nothing is written for the model.
        for switch in (True,) if thinking else (False, True):
            yield type(blank)(**options, enable_thinking=switch)


def _matching(tokenizer: Tokenizer, config: RendererConfig, thinking: bool) -> Renderer | None:
    """The renderer of ``config`` if it opens conversations exactly as the tokenizer's template does."""
    renderers = _package()
    try:
        renderer: Renderer = renderers.create_renderer(tokenizer, config)
    except (AssertionError, ValueError):  # the tokenizer lacks a token that the renderer needs
        return None
    for opening in (OPENING, SYSTEM_OPENING):
        options = {"add_generation_prompt": True, "return_dict": False, "enable_thinking": thinking, **SWITCHES}
        try:
            own = tokenizer.apply_chat_template(as_dicts(opening), tokenize=True, **options)
        except TemplateError:  # the template knows no system role
            return None
        if list(own) != renderer.render_ids(as_dicts(opening), add_generation_prompt=True):
            return None
    return renderer if _tools_match(tokenizer, renderer, thinking) else None


def _tools_match(tokenizer: Tokenizer, renderer: Renderer, thinking: bool) -> bool:
    """Whether ``renderer`` writes schemas of tools as the template does, or the template does not know any."""
    options = {"add_generation_prompt": True, "return_dict": False, "enable_thinking": thinking, "tokenize": True}
    options |= SWITCHES
    opening = as_dicts(SYSTEM_OPENING)
    try:
        own = list(tokenizer.apply_chat_template(opening, tools=[PROBE_TOOL], **options))
    except TemplateError:
        return False
    if own == list(tokenizer.apply_chat_template(opening, **options)):
        return True
    theirs: list[int] = renderer.render_ids(opening, tools=[PROBE_TOOL], add_generation_prompt=True)
    return own == theirs


def _package() -> Any:
    try:
        import renderers
    except ImportError as error:
        raise RenderingRefused("rendering needs the training extra: pip install 'spadework[train]'") from error
    return renderers
