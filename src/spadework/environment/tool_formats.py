"""From an agent's reply to the calls that it makes.

Model families write calls in one of four ways (`ToolFormat`); which one a model writes is read off its chat template
(`spadework.roles.tool_rendering`). A call that is not exactly right is never repaired and never carried out with
arguments that the model did not write: it becomes a `Call` with a ``problem`` that says what is wrong and where, and
that is what the model is answered with. What stands inside the thinking calls nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from spadework.environment.actions import outside_thinking
from spadework.environment.tool_calls import Call, encode_calls, encode_text

MAX_CALLS = 64
"""Further calls of a reply are left out; the environment carries out fewer in any case."""

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION = re.compile(r"\s*<function=([^<>\n]*)>(.*)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^<>\n]*)>(.*?)</parameter>\s*", re.DOTALL)
_LOOKS_LIKE_CALL = re.compile(r'\{\s*"(?:name|function)"\s*:')
_CALL_HEADER = re.compile(r"<\|channel\|>(\S*) to=((?:(?!<\|message\|>).)*)<\|message\|>", re.DOTALL)
_CALL_END = "<|call|>"
_SPACE = re.compile(r"[\s;]*")


class ToolFormat(StrEnum):
    """How a model family writes a call."""

    JSON_TAGS = "json-tags"
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`"""
    XML_TAGS = "xml-tags"
    """`<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`"""
    BARE_JSON = "bare-json"
    """`{"name": …, "parameters": {…}}` as the whole reply, several of them one after the other"""
    CHANNELS = "channels"
    """`<|channel|>commentary to=functions.NAME<|message|>{…}<|call|>` as the end of the reply"""


@dataclass(frozen=True)
class ToolReply:
    """What a reply asks for: ``calls`` in order, or else ``text`` (without thinking)."""

    calls: tuple[Call, ...]
    text: str

    @property
    def malformed(self) -> int:
        """Calls that could not be read."""
        return sum(1 for call in self.calls if call.problem)

    @property
    def action(self) -> str:
        """What the environment is stepped with."""
        return encode_calls(self.calls) if self.calls else encode_text(self.text)


def read_tool_reply(reply: str, format: ToolFormat, tools: Sequence[Mapping[str, Any]], turn: int) -> ToolReply:
    """The calls of ``reply``. ``turn`` counts from 0; a call without an id of its own is `call_TURN_NUMBER`, from 1.

    ``tools`` are the schemas that the model was shown: values in XML have no types but theirs.
    """
    text, unclosed = outside_thinking(reply)
    found = _READERS[format](text, tools)
    if not found and (problem := _call_in_thinking(reply, text, unclosed, format)):
        found = [_malformed("", problem)]
    calls = tuple(
        Call(call.id or f"call_{turn + 1}_{number}", call.name, call.arguments, call.problem)
        for number, call in enumerate(found[:MAX_CALLS], 1)
    )
    return ToolReply(calls, text.strip())


def read_arguments(name: str, text: str) -> Call:
    """The call of ``name`` whose arguments are the JSON ``text``; it has no id."""
    if not text.strip():
        return _malformed(name, "the call has no arguments; {} stands for none")
    try:
        arguments = _DECODER.decode(text.strip())
    except (ValueError, RecursionError) as error:
        return _malformed(name, _json_problem(error, text.strip()))
    if not isinstance(arguments, dict):
        return _malformed(name, "the arguments are not an object; write the JSON object itself")
    return Call("", name, arguments) if name else _malformed("", "the call has no name")


def _call_in_thinking(reply: str, text: str, unclosed: bool, format: ToolFormat) -> str:
    if format is ToolFormat.CHANNELS:
        return ""  # what a message is stands before it: thoughts of calls are none
    looks = _LOOKS_LIKE_CALL.search if format is ToolFormat.BARE_JSON else re.compile(_OPEN).search
    if looks(reply) is None or looks(text) is not None:
        return ""
    if unclosed:
        return "the call stands inside the thinking, which never ended; end it with </think> and call after it"
    return "the call stands inside the thinking; only calls after </think> are carried out"


def _tagged(text: str, read: Callable[[str], tuple[Call, int]]) -> list[Call]:
    """Blocks between tags. ``read`` gives the call at the start of a text and where the block's content ends."""
    calls: list[Call] = []
    at = 0
    while True:
        start, stray = text.find(_OPEN, at), text.find(_CLOSE, at)
        if stray >= 0 and (start < 0 or stray < start):
            calls.append(_malformed("", f"there is a {_CLOSE} without {_OPEN} before it"))
            at = stray + len(_CLOSE)
            continue
        if start < 0:
            return calls
        inside = start + len(_OPEN)
        call, length = read(text[inside:])
        end = text.find(_CLOSE, inside + length)
        if end < 0:
            reason = call.problem or f"there is no {_CLOSE} behind it"
            calls.append(_malformed(call.name, f"the call is not closed: {reason}"))
            return calls
        rest = text[inside + length : end].strip()
        if not call.problem and rest:
            nested = _OPEN in rest
            reason = "a call stands inside another one" if nested else f"{_shown(rest)} stands behind the call"
            call = _malformed(call.name, f"{reason}; write each call between tags of its own")
        calls.append(call)
        at = end + len(_CLOSE)


def _json_tags(text: str, tools: Sequence[Mapping[str, Any]]) -> list[Call]:
    return _tagged(text, _json_call)


def _bare_json(text: str, tools: Sequence[Mapping[str, Any]]) -> list[Call]:
    text = text.replace("<|python_tag|>", "").strip()
    if not text.startswith("{"):
        if _LOOKS_LIKE_CALL.search(text) is None:
            return []
        return [_malformed("", "a reply that calls a tool must be the call alone, without text before it")]
    calls: list[Call] = []
    at = 0
    while at < len(text):
        if text[at] != "{":
            calls.append(_malformed("", f"{_shown(text[at:])} stands behind the call; the reply must be calls alone"))
            break
        call, length = _json_call(text[at:])
        calls.append(call)
        if length == 0:
            break
        space = _SPACE.match(text, at + length)
        at = space.end() if space else at + length
    return calls


def _channels(text: str, tools: Sequence[Mapping[str, Any]]) -> list[Call]:
    calls: list[Call] = []
    at = 0
    while (header := _CALL_HEADER.search(text, at)) is not None:
        call, at = _channel_call(text, header)
        calls.append(call)
        if at < 0:
            break
    return calls


def _channel_call(text: str, header: re.Match[str]) -> tuple[Call, int]:
    """The call behind ``header`` and where it ends; -1 if its end cannot be told."""
    channel, recipient = header.groups()
    name = recipient.removeprefix("functions.")
    try:
        arguments, end = _DECODER.raw_decode(text, header.end())
    except (ValueError, RecursionError) as error:
        if not text[header.end() :].removesuffix(_CALL_END):
            return _malformed(name, "the call has no arguments; {} stands for none"), -1
        return _malformed(name, _json_problem(error, text.removesuffix(_CALL_END), header.end())), -1
    if name == recipient or not name:
        problem = f"a call must go to functions.NAME, and this one goes to {_shown(recipient)}"
    elif channel != "commentary":
        problem = f"the call stands in the channel {_shown(channel)}; calls go to the channel commentary"
    elif not text.startswith(_CALL_END, end):
        problem = f"the call does not end in {_CALL_END} behind its arguments"
    elif not isinstance(arguments, dict):
        problem = "the arguments are not an object; write the JSON object itself"
    else:
        return Call("", name, arguments), end + len(_CALL_END)
    return _malformed(name, problem), end


def _json_call(text: str) -> tuple[Call, int]:
    """The call at the start of ``text`` and the characters that it takes; 0 if its JSON cannot be read."""
    stripped = text.lstrip()
    try:
        value, end = _DECODER.raw_decode(stripped)
    except (ValueError, RecursionError) as error:
        return _malformed("", _json_problem(error, stripped)), 0
    return _call_of(value), len(text) - len(stripped) + end


def _call_of(value: object) -> Call:
    if not isinstance(value, dict):
        return _malformed("", "a call must be one JSON object with a name and arguments")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return _malformed("", 'the call has no "name"' if name is None else '"name" must be a text')
    unknown = [key for key in value if key not in ("name", "arguments", "parameters", "id", "type")]
    if unknown:
        return _malformed(name, f'{_shown(unknown[0])} does not belong into a call; put it into "arguments"')
    given = [key for key in ("arguments", "parameters") if key in value]
    if len(given) != 1:
        what = 'both "arguments" and "parameters"' if given else 'no "arguments"; {} stands for none'
        return _malformed(name, f"the call has {what}")
    arguments = value[given[0]]
    if not isinstance(arguments, dict):
        what = "a text" if isinstance(arguments, str) else "not an object"
        return _malformed(name, f'"{given[0]}" is {what}; write the JSON object itself')
    identity = value.get("id", "")
    if not isinstance(identity, str):
        return _malformed(name, '"id" must be a text')
    return Call(identity, name, arguments)


def _xml_tags(text: str, tools: Sequence[Mapping[str, Any]]) -> list[Call]:
    properties = {
        tool["function"]["name"]: tool["function"]["parameters"].get("properties", {})
        for tool in tools
        if "function" in tool
    }

    def read(block: str) -> tuple[Call, int]:
        end = block.find(_CLOSE)
        content = block if end < 0 else block[:end]
        return _xml_call(content, properties), len(content)

    return _tagged(text, read)


def _xml_call(block: str, properties: Mapping[str, Mapping[str, Any]]) -> Call:
    if _OPEN in block:
        return _malformed("", "a call stands inside another one; write each call between tags of its own")
    function = _FUNCTION.fullmatch(block)
    if function is None:
        return _malformed("", "between the tags there must be <function=NAME> … </function> and nothing else")
    name, body = function[1].strip(), function[2]
    if not name:
        return _malformed("", "the function has no name")
    arguments: dict[str, Any] = {}
    at = 0
    while body[at:].strip():
        parameter = _PARAMETER.match(body, at)
        if parameter is None:
            return _malformed(name, f"{_shown(body[at:].strip())} is no <parameter=KEY> … </parameter>")
        key, text = parameter[1].strip(), parameter[2]
        if key in arguments:
            return _malformed(name, f"the parameter {key} is given twice")
        try:
            arguments[key] = _typed(_without_frame(text), properties.get(name, {}).get(key, {}))
        except (ValueError, RecursionError):
            return _malformed(name, f"the parameter {key} is {_shown(text.strip())}, which is no JSON of its type")
        at = parameter.end()
    return Call("", name, arguments)


def _typed(text: str, schema: Mapping[str, Any]) -> Any:
    """A text if that is what the schema asks for; else JSON, or a text where the schema does not mind."""
    declared = schema.get("type")
    types = [declared] if isinstance(declared, str) else declared
    if types == ["string"] or (types is None and isinstance(text, str) and text in schema.get("enum", ())):
        return text
    try:
        return _DECODER.decode(text.strip())
    except ValueError:
        if types is not None and "string" not in types:
            raise
        return text


def _without_frame(text: str) -> str:
    """Without the line ends that the format puts around a value."""
    return text.removeprefix("\n").removesuffix("\n")


def _json_problem(error: Exception, text: str, start: int = 0) -> str:
    """``start`` is where the JSON begins in ``text``."""
    if isinstance(error, json.JSONDecodeError):
        near = text[max(start, error.pos - 20) :].split(_CLOSE)[0].strip()
        return f"the JSON is not right: {error.msg} at character {error.pos - start + 1}, near {_shown(near)}"
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    return f"the JSON is not right: {error}"


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if value - value != 0.0:
        raise ValueError(f"{text} is too large")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _malformed(name: str, problem: str) -> Call:
    return Call("", name, problem=problem)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}…"


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant)

_READERS: Mapping[ToolFormat, Callable[[str, Sequence[Mapping[str, Any]]], list[Call]]] = {
    ToolFormat.JSON_TAGS: _json_tags,
    ToolFormat.XML_TAGS: _xml_tags,
    ToolFormat.BARE_JSON: _bare_json,
    ToolFormat.CHANNELS: _channels,
}
