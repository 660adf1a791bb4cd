"""Tool environments as the trainer sees them: what an action asks for and what an observation tells.

Programs that are tool environments take and give texts like all others; the notation of these texts is that of
`spadework.sandbox.inside.tool_notation`. What arrives is written by a program that nobody trusts: it is read strictly,
and what does not fit raises `NotToolObservation`, which is the program's fault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from spadework.sandbox.inside import schemas
from spadework.sandbox.inside.tool_notation import Call, encode_calls, encode_text, read_calls

__all__ = [
    "Call",
    "Criterion",
    "Inspection",
    "NotToolObservation",
    "ToolMessage",
    "ToolObservation",
    "decode_inspection",
    "decode_observation",
    "encode_calls",
    "encode_text",
    "read_calls",
    "readable",
    "said",
]

MAX_TOOLS = 64
MAX_MESSAGES = 64


class NotToolObservation(ValueError):
    """The program's text is not in the notation. The message is one sentence."""


@dataclass(frozen=True)
class ToolMessage:
    """``executed`` is false for a call that was not carried out; ``id`` and ``name`` are empty for the user."""

    role: Literal["user", "tool"]
    content: str
    id: str = ""
    name: str = ""
    executed: bool = True


@dataclass(frozen=True)
class ToolObservation:
    """``tools`` are function schemas, in the first observation of a play only."""

    messages: tuple[ToolMessage, ...]
    tools: tuple[dict[str, Any], ...] = ()

    @property
    def results(self) -> tuple[ToolMessage, ...]:
        return tuple(message for message in self.messages if message.role == "tool")

    @property
    def told(self) -> tuple[str, ...]:
        """What the user says in it."""
        return tuple(message.content for message in self.messages if message.role == "user")


@dataclass(frozen=True)
class Criterion:
    """``holds`` is None if the criterion could not be evaluated; ``problem`` then says why."""

    holds: bool | None
    problem: str
    reads: tuple[tuple[str, ...], ...]
    """Places of the state that it looked at."""


@dataclass(frozen=True)
class Inspection:
    """A tool environment from inside: ``position`` counts the instructions that are done."""

    position: int
    instructions: tuple[str, ...]
    criteria: tuple[Criterion, ...]
    state: Any


def decode_observation(text: str, first: bool = False) -> ToolObservation:
    """Raises NotToolObservation. The ``first`` observation of a play must hold tools, no other may."""
    value = _object(text)
    if set(value) != ({"messages", "tools"} if first else {"messages"}):
        raise NotToolObservation(f"an observation with the keys {', '.join(map(repr, value))}")
    entries, tools = value["messages"], value.get("tools", [])
    if not isinstance(entries, list) or not 0 < len(entries) <= MAX_MESSAGES:
        raise NotToolObservation(f"an observation whose messages are no list of 1 to {MAX_MESSAGES}")
    if not isinstance(tools, list) or len(tools) > MAX_TOOLS or (first and not tools):
        raise NotToolObservation("an observation whose tools are no list of tools")
    return ToolObservation(tuple(map(_message, entries)), tuple(map(_tool, tools)))


def decode_inspection(text: str) -> Inspection:
    """What `inspect` of a play gave. Raises NotToolObservation."""
    value = _object(text)
    try:
        criteria = tuple(
            Criterion(entry["holds"], entry["problem"], tuple(map(tuple, entry["reads"])))
            for entry in value["criteria"]
        )
        found = Inspection(value["position"], tuple(value["instructions"]), criteria, value["state"])
    except (KeyError, TypeError):
        raise NotToolObservation("an inspection of the wrong shape") from None
    texts = [*found.instructions, *(criterion.problem for criterion in criteria)]
    fits = (
        type(found.position) is int
        and len(criteria) == len(found.instructions)
        and all(type(one) is str for one in texts)
        and all(criterion.holds in (True, False, None) for criterion in criteria)
        and all(type(key) is str for criterion in criteria for path in criterion.reads for key in path)
    )
    if not fits:
        raise NotToolObservation("an inspection of the wrong types")
    return found


def said(messages: Sequence[ToolMessage]) -> str:
    """Messages as a person reads them."""
    return "\n".join(f"[{message.name}] {message.content}" if message.name else message.content for message in messages)


def readable(observation: str) -> str:
    """What a person is shown of an observation: the messages of a tool environment, and any other text as it is."""
    for first in (True, False):
        try:
            found = decode_observation(observation, first)
        except NotToolObservation:
            continue
        tools = ", ".join(tool["function"]["name"] for tool in found.tools)
        return f"[tools: {tools}]\n{said(found.messages)}" if tools else said(found.messages)
    return observation


def _object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise NotToolObservation("a text that is no JSON") from None
    if not isinstance(value, dict):
        raise NotToolObservation("JSON that is no object")
    if "\\u" in text:
        try:  # an escape can stand for half a character, which is no text and which no tokeniser takes
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise NotToolObservation("JSON with lone surrogates") from None
    return value


def _message(entry: object) -> ToolMessage:
    if not isinstance(entry, dict):
        raise NotToolObservation("a message that is no object")
    texts = {key: value for key, value in entry.items() if key != "executed"}
    if any(type(value) is not str for value in texts.values()):
        raise NotToolObservation("a message with fields that are no text")
    if entry.get("role") == "user" and set(entry) == {"role", "content"}:
        return ToolMessage("user", entry["content"])
    if entry.get("role") == "tool" and set(entry) == {"role", "id", "name", "content", "executed"}:
        if type(entry["executed"]) is not bool:
            raise NotToolObservation("a result that does not say whether its call was carried out")
        return ToolMessage("tool", entry["content"], entry["id"], entry["name"], entry["executed"])
    raise NotToolObservation(f"a message with the keys {', '.join(map(repr, entry))}")


def _tool(entry: object) -> dict[str, Any]:
    function = entry.get("function") if isinstance(entry, dict) and entry.get("type") == "function" else None
    if not isinstance(function, dict) or set(function) != {"name", "description", "parameters"}:
        raise NotToolObservation("a tool that is no function schema")
    if type(function["name"]) is not str or type(function["description"]) is not str:
        raise NotToolObservation("a tool whose name or description is no text")
    if problem := schemas.parameters_problem(function["parameters"]):
        raise NotToolObservation(f"a tool whose schema {problem}")
    return {"type": "function", "function": function}
