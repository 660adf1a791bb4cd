"""Scripted agents that play tool environments without understanding them.

Their calls are valid as far as schemas go: names exist and types fit. What they put into the arguments comes from what
they were shown, or is junk. Each is a function of the play so far, as every scripted agent is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from spadework.environment.gates.plays import Choose, Transcript
from spadework.environment.tool_calls import Call, ToolObservation, decode_observation, encode_calls, encode_text

ODD_TEXTS = ("", " ", "zzz", "x" * 500, "naïve 你好 🙂", "\x00\n", "-1", "None", "%s {0} \\d+(((", "a.b/c:d,e;f")
ODD_INTEGERS = (0, -1, 1, 10**12, -(10**12), 2**63)
ODD_NUMBERS = (0.0, -0.5, 1e-9, 1e15, -1e15)

MEANINGLESS = 2
"""Which of the odd values is a plain word, or 1."""

REFUSALS = ("Not executed:", "Error:")
"""How a result begins whose call did nothing."""

_WORD = re.compile(r"[^\W_](?:[\w.@:/-]*[\w])?")
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,12}(?:\.\d{1,6})?(?!\w)")

DONE = encode_text("done")
EMPTY = encode_text("")


def says(text: str) -> Choose:
    """Says ``text`` on every turn."""
    action = encode_text(text)
    return lambda transcript: action


def odd_calls(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Actions that nobody in their senses takes: every tool with odd values of the right types, and with wrong ones."""
    actions = ["", "look", '{"calls": [', '{"calls": []}', '{"calls": "x"}', encode_text("x" * 3000), encode_text("")]
    actions.append(encode_calls([Call("c", "no_such_tool", {})]))
    actions.append(encode_calls([Call("c", tools[0]["function"]["name"], problem="it could not be read")]))
    actions.append(encode_calls([Call(f"c{n}", tools[n % len(tools)]["function"]["name"], {}) for n in range(40)]))
    for tool in tools:
        name, parameters = tool["function"]["name"], tool["function"]["parameters"]
        properties: Mapping[str, Any] = parameters.get("properties", {})
        for number in range(max(len(ODD_TEXTS), len(ODD_INTEGERS)) if properties else 1):
            values = {key: _odd(schema, number + shift) for shift, (key, schema) in enumerate(properties.items())}
            actions.append(encode_calls([Call("c", name, values)]))
        required = parameters.get("required", [])
        if required != list(properties):
            only = {key: _odd(properties[key], MEANINGLESS) for key in required}
            actions.append(encode_calls([Call("c", name, only)]))
        actions.append(encode_calls([Call("c", name, {key: {"nested": [None]} for key in properties})]))
    return actions


def meaningless_calls(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each tool a call without arguments, and one with such of the right types as stand for nothing."""
    probes: list[str] = []
    for tool in tools:
        name, parameters = tool["function"]["name"], tool["function"]["parameters"]
        values = {key: _odd(schema, MEANINGLESS) for key, schema in parameters.get("properties", {}).items()}
        probes += [encode_calls([Call("c", name, {})]), encode_calls([Call("c", name, values)])]
    return probes


def calls_with(tools: Sequence[Mapping[str, Any]], text: str) -> list[str]:
    """For each tool a call that has ``text`` wherever any text may stand."""
    return [
        encode_calls([Call("c", tool["function"]["name"], _given(tool["function"]["parameters"], text))])
        for tool in tools
    ]


def random_caller(rng: np.random.Generator) -> Choose:
    """Calls tools at random, with values of the right types from everything that was said and answered so far."""

    def choose(transcript: Transcript) -> str:
        opening, answers = decoded(transcript)
        texts = [*opening.told, *(message.content for answer in answers for message in answer.messages)]
        return _random_call(rng, opening.tools, values_in("\n".join(texts)), len(transcript.steps))

    return choose


def stubborn_caller(rng: np.random.Generator) -> Choose:
    """Makes one random call and repeats it for good."""
    first = random_caller(rng)

    def choose(transcript: Transcript) -> str | None:
        return transcript.actions[-1] if transcript.steps else first(transcript)

    return choose


def error_copier(rng: np.random.Generator) -> Choose:
    """Provokes refusals, and then calls with values that stand in them and nowhere else."""

    def choose(transcript: Transcript) -> str:
        opening, answers = decoded(transcript)
        if not answers:
            return encode_calls(
                [
                    Call(f"c{number}", tool["function"]["name"], _junk(tool["function"]["parameters"]))
                    for number, tool in enumerate(opening.tools[:8])
                ]
            )
        results = [message.content for answer in answers for message in answer.results]
        refused = "\n".join(text for text in results if text.startswith(REFUSALS))
        told = "\n".join([*opening.told, *(text for answer in answers for text in answer.told)])
        return _random_call(rng, opening.tools, values_in(f"{refused}\n{told}"), len(transcript.steps))

    return choose


def prying_caller(rng: np.random.Generator, text: str) -> Choose:
    """Gives ``text`` to every tool, and then calls with values that stand in the answers."""

    def choose(transcript: Transcript) -> str:
        opening, answers = decoded(transcript)
        if not answers:
            return encode_calls(
                [
                    Call(f"c{number}", tool["function"]["name"], _given(tool["function"]["parameters"], text))
                    for number, tool in enumerate(opening.tools[:8])
                ]
            )
        shown = "\n".join(message.content for answer in answers for message in answer.messages)
        return _random_call(rng, opening.tools, values_in(shown), len(transcript.steps))

    return choose


def decoded(transcript: Transcript) -> tuple[ToolObservation, list[ToolObservation]]:
    """The opening and what came after it. Raises NotToolObservation."""
    answers = [_decode(step.observation, False) for step in transcript.steps]
    return _decode(transcript.first_observation, True), answers


def values_in(text: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """(texts, numbers) that an argument could be made of, each once, in the order of ``text``."""
    return _values(text)


@lru_cache(maxsize=256)
def _values(text: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    words = dict.fromkeys(_WORD.findall(text))
    pairs = dict.fromkeys(f"{a} {b}" for line in text.splitlines() for a, b in _neighbours(line))
    numbers = dict.fromkeys(float(match) for match in _NUMBER.findall(text))
    return (*words, *pairs)[:400], tuple(numbers)[:200]


def _neighbours(line: str) -> Iterator[tuple[str, str]]:
    words = _WORD.findall(line)
    return pairwise(words)


def _random_call(
    rng: np.random.Generator,
    tools: Sequence[Mapping[str, Any]],
    values: tuple[tuple[str, ...], tuple[float, ...]],
    turn: int,
) -> str:
    function = tools[int(rng.integers(len(tools)))]["function"]
    arguments = drawn_arguments(rng, function["parameters"], values)
    return encode_calls([Call(f"call_{turn + 1}_1", function["name"], arguments)])


def drawn_arguments(
    rng: np.random.Generator, parameters: Mapping[str, Any], values: tuple[tuple[str, ...], tuple[float, ...]]
) -> dict[str, Any]:
    """Arguments of the right types made of ``values``; each that is not required is left out half of the time."""
    required = parameters.get("required", [])
    return {
        key: _drawn(rng, schema, values)
        for key, schema in parameters.get("properties", {}).items()
        if key in required or rng.random() < 0.5
    }


def _drawn(
    rng: np.random.Generator, schema: Mapping[str, Any], values: tuple[tuple[str, ...], tuple[float, ...]]
) -> Any:
    texts, numbers = values
    if "enum" in schema:
        return schema["enum"][int(rng.integers(len(schema["enum"])))]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return _drawn(rng, schema["anyOf"][int(rng.integers(len(schema["anyOf"])))], values)
    match _type_of(schema):
        case "integer":
            whole = [int(number) for number in numbers if number.is_integer()]
            return whole[int(rng.integers(len(whole)))] if whole else 1
        case "number":
            return numbers[int(rng.integers(len(numbers)))] if numbers else 1.0
        case "boolean":
            return bool(rng.integers(2))
        case "array":
            return [_drawn(rng, schema.get("items", {}), values) for _ in range(int(rng.integers(1, 3)))]
        case "object":
            return {key: _drawn(rng, part, values) for key, part in schema.get("properties", {}).items()}
        case "null":
            return None
        case _:
            return texts[int(rng.integers(len(texts)))] if texts else "a"


def _odd(schema: Mapping[str, Any], number: int) -> Any:
    if "enum" in schema:
        return schema["enum"][number % len(schema["enum"])]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return _odd(schema["anyOf"][number % len(schema["anyOf"])], number)
    match _type_of(schema):
        case "integer":
            return ODD_INTEGERS[number % len(ODD_INTEGERS)]
        case "number":
            return ODD_NUMBERS[number % len(ODD_NUMBERS)]
        case "boolean":
            return number % 2 == 0
        case "null":
            return None
        case "array":
            return [_odd(schema.get("items", {}), number)] * (number % 3)
        case "object":
            return {key: _odd(part, number) for key, part in schema.get("properties", {}).items()}
        case _:
            return ODD_TEXTS[number % len(ODD_TEXTS)]


def _junk(parameters: Mapping[str, Any]) -> dict[str, Any]:
    properties: Mapping[str, Any] = parameters.get("properties", {})
    return {key: _odd(properties[key], MEANINGLESS) for key in parameters.get("required", [])}


def _given(parameters: Mapping[str, Any], text: str) -> dict[str, Any]:
    return {
        key: text
        if _type_of(schema) == "string" and not {"enum", "const", "anyOf"} & set(schema)
        else _odd(schema, MEANINGLESS)
        for key, schema in parameters.get("properties", {}).items()
    }


def _type_of(schema: Mapping[str, Any]) -> str:
    declared = schema.get("type", "string")
    return str(declared[0]) if isinstance(declared, list) else str(declared)


@lru_cache(maxsize=1024)
def _decode(text: str, first: bool) -> ToolObservation:
    return decode_observation(text, first)
