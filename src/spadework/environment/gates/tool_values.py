"""Where the arguments of calls come from: what a text shows, and what was shown before a call was made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spadework.environment.gates.leaks import contains, tokens
from spadework.environment.gates.plays import Transcript
from spadework.environment.gates.tool_agents import decoded
from spadework.environment.tool_calls import Call, read_calls

_NUMBER = re.compile(r"(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|(?<![\w.])-?\d+(?:\.\d+)?(?!\w)")
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Argument:
    """One value in a call: ``turn`` counts from 1, ``place`` is its path in the arguments."""

    turn: int
    call: Call
    place: str
    value: str | int | float


Place = tuple[int, str]
"""A call: its turn, from 1, and its id."""


@dataclass(frozen=True)
class Shown:
    """A text that the agent saw after action ``turn`` (0: at the start); ``answers`` is the call it belongs to."""

    turn: int
    text: str
    answers: Place | None = None


def shown(transcript: Transcript) -> list[Shown]:
    """Descriptions of tools, what the user said and what the tools answered. Raises NotToolObservation."""
    opening, answers = decoded(transcript)
    found = [Shown(0, text) for text in (*_descriptions(opening.tools), *opening.told)]
    for turn, answer in enumerate(answers, 1):
        found += [
            Shown(turn, message.content, (turn, message.id) if message.role == "tool" else None)
            for message in answer.messages
        ]
    return found


def arguments(transcript: Transcript) -> list[Argument]:
    """The values of all calls but those that the schemas name themselves, and truths. Raises NotToolObservation."""
    opening, _ = decoded(transcript)
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in opening.tools}
    return [
        Argument(turn, call, place, value)
        for turn, step in enumerate(transcript.steps, 1)
        for call in read_calls(step.action)
        for place, value in _leaves(call.arguments, schemas.get(call.name, {}), "")
    ]


def underivable(wanted: Sequence[Argument], texts: Sequence[Shown], without: Place | None = None) -> list[Argument]:
    """Those of ``wanted`` that stand in no text of an earlier turn; the call ``without`` is thought away."""
    return [
        argument
        for argument in wanted
        if (argument.turn, argument.call.id) != without
        and not any(
            text.turn < argument.turn
            and (without is None or text.answers != without)
            and shows(text.text, argument.value)
            for text in texts
        )
    ]


def shows(text: str, value: str | int | float) -> bool:
    """Whether ``value`` stands in ``text``: as a run of whole words, or as an equal number."""
    if isinstance(value, str):
        span = tokens(value)
        return not span or contains(tokens(text), span)
    return any(
        abs(float(match.replace(",", "")) - value) <= TOLERANCE * max(1.0, abs(value))
        for match in _NUMBER.findall(text)
    )


def _descriptions(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("description"), str):
            yield schema["description"]
        for part in schema.values():
            yield from _descriptions(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from _descriptions(part)


def _leaves(value: Any, schema: Mapping[str, Any], place: str) -> Iterator[tuple[str, str | int | float]]:
    if "enum" in schema or "const" in schema or ("default" in schema and schema["default"] == value):
        return
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, schema.get("properties", {}).get(key, {}), f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _leaves(part, schema.get("items", {}), f"{place}[{index}]")
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield place, value
