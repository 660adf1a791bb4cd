"""A tool's name, description and parameters, from its method."""

from __future__ import annotations

import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spadework.sandbox.inside import schemas
from spadework.sandbox.inside.contract import Breach

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LINE = re.compile(r"\s*(\w+)(?:\s*\([^)\n]*\))?\s*:\s*(\S.*)")
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


@dataclass(frozen=True)
class ToolMark:
    """What `@tool` was given."""

    parameters: Mapping[str, Any] | None
    description: str | None


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON Schema without problems."""
    function: Callable[..., object]

    def schema(self) -> dict[str, object]:
        """As the function-calling format of OpenAI has it."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }


def tool_of(function: Callable[..., object]) -> Tool:
    """The tool that a marked method is. Raises Breach if it cannot be one."""
    mark: ToolMark = function.__tool__  # type: ignore[attr-defined]
    name = function.__name__
    if not _NAME.fullmatch(name):
        raise Breach("contract", f"{name} cannot be the name of a tool")
    documentation = inspect.getdoc(function) or ""
    accepted = _accepted(function, name)
    if mark.parameters is None:
        schema = _derived(function, name, accepted, _described(documentation))
    else:
        schema = dict(mark.parameters)
        if problem := schemas.parameters_problem(schema):
            raise Breach("contract", f"the schema of the tool {name} {problem}")
        _require_fit(name, schema, accepted)
        schema.setdefault("properties", {})
        if not _takes_anything(function):
            schema["additionalProperties"] = False
    description = mark.description if mark.description is not None else documentation.split("\n\n")[0]
    return Tool(name, " ".join(str(description).split()), schema, function)


def _accepted(function: Callable[..., object], name: str) -> dict[str, inspect.Parameter]:
    """The parameters behind `self` that a call can name."""
    found = list(inspect.signature(function).parameters.values())
    if not found or found[0].kind not in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
        raise Breach("contract", f"the tool {name} does not take self; tools are methods")
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for parameter in found[1:]:
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise Breach("contract", f"the tool {name} takes {parameter.name} by position only; calls name arguments")
    return {parameter.name: parameter for parameter in found[1:] if parameter.kind in named}


def _takes_anything(function: Callable[..., object]) -> bool:
    return any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in inspect.signature(function).parameters.values()
    )


def _require_fit(name: str, schema: Mapping[str, Any], accepted: Mapping[str, inspect.Parameter]) -> None:
    """A call that fits the schema must be one that the method can take."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not accepted and properties:
        return  # it may take **arguments
    for known in properties:
        if known not in accepted:
            raise Breach("contract", f"the schema of the tool {name} has {known}, which its method does not take")
    for parameter in accepted.values():
        if parameter.default is inspect.Parameter.empty and parameter.name not in required:
            raise Breach(
                "contract",
                f"the method of the tool {name} needs {parameter.name}, which its schema does not list as required",
            )


def _derived(
    function: Callable[..., object],
    name: str,
    accepted: Mapping[str, inspect.Parameter],
    described: Mapping[str, str],
) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:
        raise Breach("contract", f"the type hints of the tool {name} cannot be read: {error}") from None
    properties: dict[str, Any] = {}
    for parameter in accepted.values():
        if parameter.name not in hints:
            raise Breach("contract", f"the parameter {parameter.name} of the tool {name} has no type hint")
        part = _schema_of(hints[parameter.name], f"the parameter {parameter.name} of the tool {name}")
        if parameter.name in described:
            part["description"] = described[parameter.name]
        properties[parameter.name] = part
    required = [one.name for one in accepted.values() if one.default is inspect.Parameter.empty]
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if not _takes_anything(function):
        schema["additionalProperties"] = False
    if problem := schemas.parameters_problem(schema):
        raise Breach("contract", f"the schema of the tool {name} {problem}")
    return schema


def _schema_of(hint: Any, whose: str) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if hint is Any:
        return {}
    if origin is Literal:
        return {"enum": list(arguments)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        raise Breach("contract", f"{whose} is an Enum; write Literal[...] with the values that a call may give")
    if hint is list or origin is list:
        return {"type": "array", **({"items": _schema_of(arguments[0], whose)} if arguments else {})}
    if hint is dict or origin is dict:
        return {"type": "object"}
    if origin in (typing.Union, types.UnionType):
        parts = [_schema_of(one, whose) for one in arguments]
        if all(set(part) == {"type"} for part in parts):
            return {"type": [part["type"] for part in parts]}
        return {"anyOf": parts}
    raise Breach("contract", f"{whose} has the type hint {hint}, which no JSON Schema is made of; give one to @tool")


def _described(documentation: str) -> dict[str, str]:
    """Lines `name: text` behind the first paragraph of a docstring."""
    lines = documentation.partition("\n\n")[2].splitlines()
    return {match[1]: match[2].strip() for line in lines if (match := _LINE.fullmatch(line))}
