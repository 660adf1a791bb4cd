"""From an agent's reply to the text that the environment is stepped with.

A reply without a usable action is named, never guessed at: the environment is then stepped with the empty string, so
that it can remind the agent of the format, and the caller counts it. All parsing takes time linear in the reply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

TextFormat = Literal["boxed", "raw"]
"""How a reply holds the one text that a game is stepped with."""
ActionFormat = Literal["boxed", "raw", "tool_call"]
"""`tool_call`: a reply makes calls, which `spadework.environment.tool_formats` reads."""

_TAG = re.compile(r"</?think>")
_BRACES = re.compile(r"\\boxed[ \t]*\{|[{}]")


class NoActionReason(StrEnum):
    """Why a reply holds no action."""

    NO_BOX = "no-box"
    """There is no `\\boxed{` outside the thinking."""
    UNBALANCED_BOX = "unbalanced-box"
    """There are boxes outside the thinking, but none of them is closed."""
    THINKING_UNCLOSED = "thinking-unclosed"
    """The thinking never ended and nothing before it is an action."""
    EMPTY = "empty"
    """The reply holds nothing outside the thinking (raw format)."""


@dataclass(frozen=True)
class ParsedAction:
    """The text that the environment is stepped with, without surrounding whitespace; it may be empty (`\\boxed{}`)."""

    action: str


@dataclass(frozen=True)
class NoAction:
    """The reply holds no action. The environment is stepped with ``action``, which is always empty."""

    reason: NoActionReason
    action: Literal[""] = ""


def parse_action(reply: str, format: TextFormat) -> ParsedAction | NoAction:
    """The action in ``reply``.

    `boxed`: the content of the last balanced `\\boxed{…}` outside the thinking, nested braces kept whole. Of nested
    boxes the innermost counts. `raw`: everything outside the thinking.
    """
    text, unclosed = outside_thinking(reply)
    found = _last_box(text) if format == "boxed" else _whole(text)
    if unclosed and isinstance(found, NoAction):
        return NoAction(NoActionReason.THINKING_UNCLOSED)
    return found


def outside_thinking(reply: str) -> tuple[str, bool]:
    """The text outside `<think>…</think>`, and whether a block was left open.

    A `</think>` without an opening tag closes thinking that the prompt opened: all before it is thinking.
    """
    parts: list[str] = []
    start = 0
    thinking = False
    for tag in _TAG.finditer(reply):
        if tag[0] == "<think>":
            if not thinking:
                parts.append(reply[start : tag.start()])
            thinking = True
        else:
            if not thinking:
                parts.clear()
            thinking = False
            start = tag.end()
    if not thinking:
        parts.append(reply[start:])
    return "\n".join(parts), thinking


def _whole(text: str) -> ParsedAction | NoAction:
    action = text.strip()
    return ParsedAction(action) if action else NoAction(NoActionReason.EMPTY)


def _last_box(text: str) -> ParsedAction | NoAction:
    first = text.find("\\boxed")
    if first < 0:
        return NoAction(NoActionReason.NO_BOX)
    open_braces: list[tuple[int, bool]] = []
    boxes_seen = False
    best_start, best_end = -1, -1
    for match in _BRACES.finditer(text, first):
        if match[0] == "}":
            if not open_braces:
                continue
            start, is_box = open_braces.pop()
            if is_box and start > best_start:
                best_start, best_end = start, match.start()
        else:
            is_box = match[0] != "{"
            boxes_seen = boxes_seen or is_box
            open_braces.append((match.end(), is_box))
    if best_start < 0:
        return NoAction(NoActionReason.UNBALANCED_BOX if boxes_seen else NoActionReason.NO_BOX)
    return ParsedAction(text[best_start:best_end].strip())
