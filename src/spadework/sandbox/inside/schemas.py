"""The part of JSON Schema that tool parameters may use, and whether a value fits it.

Schemas come from programs that nobody trusts, so that what can reach elsewhere or never end is not in this part:
no `$ref`, no `patternProperties`, no conditionals. `pattern` runs where the program runs, under its deadline.
3.0 is no integer here, though it is one in JSON Schema: a tool that counts with it would crash.
Standard library only: it is used inside the sandbox and outside.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

ANNOTATIONS = frozenset(("description", "title", "default", "examples", "format", "deprecated", "$comment"))
"""Keywords that say something and check nothing."""

MAX_SCHEMA_DEPTH = 8
MAX_SHOWN_CHARS = 60

_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
_KEYWORDS = frozenset(
    ("type", "enum", "const", "anyOf", "properties", "required", "additionalProperties", "items", "pattern")
) | {*_NUMBERS, *_COUNTS}


def parameters_problem(schema: object) -> str | None:
    """Why ``schema`` cannot be the `parameters` of a tool, or None: an object schema within the supported part."""
    if not isinstance(schema, dict):
        return f"is {kind(schema)}, not a JSON Schema object"
    if schema.get("type") != "object":
        return f'has the type {_shown(schema.get("type"))}; the parameters of a tool are of type "object"'
    return schema_problem(schema)


def schema_problem(schema: object, where: str = "", depth: int = 0) -> str | None:
    """Why ``schema`` is not a schema within the supported part, or None. ``where`` is the place in it."""
    at = f" at {where}" if where else ""
    if not isinstance(schema, dict):
        return f"is {kind(schema)}{at}, not a JSON Schema object"
    if depth > MAX_SCHEMA_DEPTH:
        return f"is nested deeper than {MAX_SCHEMA_DEPTH}{at}"
    for keyword, value in schema.items():
        if keyword in ANNOTATIONS:
            continue
        if keyword not in _KEYWORDS:
            return f"uses {_shown(keyword)}{at}, which is not supported; {', '.join(sorted(_KEYWORDS))} are"
        if problem := _keyword_problem(keyword, value, where, depth):
            return problem
    required, properties = schema.get("required", []), schema.get("properties", {})
    for name in required:
        if name not in properties:
            return f"requires {_shown(name)}{at}, which is not among its properties"
    return None


def value_problem(value: object, schema: Mapping[str, Any], where: str = "") -> str | None:
    """Why ``value`` does not fit ``schema``, in words that a caller can act on, or None.

    ``schema`` has no problem. ``where`` names the value.
    """
    name = where or "the value"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{name} must be a finite number"
    types = schema.get("type")
    allowed = [types] if isinstance(types, str) else types
    if allowed is not None and not any(_is_type(value, one) for one in allowed):
        return f"{name} must be of type {' or '.join(allowed)}, not {kind(value)}"
    if "enum" in schema and not any(same(value, one) for one in schema["enum"]):
        return f"{name} must be one of {', '.join(_shown(one) for one in schema['enum'])}, not {_shown(value)}"
    if "const" in schema and not same(value, schema["const"]):
        return f"{name} must be {_shown(schema['const'])}, not {_shown(value)}"
    if "anyOf" in schema:
        problems = [value_problem(value, one, where) for one in schema["anyOf"]]
        if None not in problems:
            return " or ".join(dict.fromkeys(str(problem) for problem in problems))
    return _range_problem(value, schema, name) or _parts_problem(value, schema, where)


def same(left: object, right: object) -> bool:
    """Equality of JSON: a boolean is no number, 1 and 1.0 are one number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool) and left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    return left == right


def kind(value: object) -> str:
    """What a value is called in JSON; its Python type for what JSON does not know."""
    for name in ("null", "boolean", "string", "array", "object"):
        if isinstance(value, _PYTHON_TYPES[name]):
            return name
    if isinstance(value, int | float):
        return "integer" if isinstance(value, int) else "number"
    return f"a Python {type(value).__name__}"


def _is_type(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _PYTHON_TYPES[name])


def _keyword_problem(keyword: str, value: object, where: str, depth: int) -> str | None:
    at = f" at {where}" if where else ""
    match keyword:
        case "type":
            names = value if isinstance(value, list) else [value]
            if not names or any(not isinstance(name, str) or name not in _PYTHON_TYPES for name in names):
                return f"has the type {_shown(value)}{at}; there are {', '.join(_PYTHON_TYPES)}"
        case "enum":
            if not isinstance(value, list) or not value:
                return f"has an `enum`{at} that is not a list of values"
        case "required":
            if not isinstance(value, list) or any(not isinstance(name, str) for name in value):
                return f"has a `required`{at} that is not a list of names"
        case "additionalProperties":
            if not isinstance(value, bool):
                return f"has an `additionalProperties`{at} that is neither true nor false"
        case "pattern":
            if not isinstance(value, str) or not _is_pattern(value):
                return f"has a `pattern`{at} that is not a regular expression"
        case "items":
            return schema_problem(value, f"{where}[]", depth + 1)
        case "properties":
            if not isinstance(value, dict) or any(not isinstance(name, str) for name in value):
                return f"has `properties`{at} that are not an object"
            parts = (schema_problem(part, _join(where, name), depth + 1) for name, part in value.items())
            return next((problem for problem in parts if problem), None)
        case "anyOf":
            if not isinstance(value, list) or not value:
                return f"has an `anyOf`{at} that is not a list of schemas"
            parts = (schema_problem(part, where, depth + 1) for part in value)
            return next((problem for problem in parts if problem), None)
        case _ if keyword in _COUNTS:
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                return f"has a `{keyword}`{at} that is not a count"
        case _ if keyword in _NUMBERS:
            if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                return f"has a `{keyword}`{at} that is not a number"
    return None


def _range_problem(value: object, schema: Mapping[str, Any], name: str) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            return f"{name} must be at least {schema['minimum']}"
        if "maximum" in schema and value > schema["maximum"]:
            return f"{name} must be at most {schema['maximum']}"
        if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
            return f"{name} must be more than {schema['exclusiveMinimum']}"
        if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
            return f"{name} must be less than {schema['exclusiveMaximum']}"
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            return f"{name} must have at least {schema['minLength']} characters"
        if "maxLength" in schema and len(value) > schema["maxLength"]:
            return f"{name} must have at most {schema['maxLength']} characters"
        if "pattern" in schema and re.search(schema["pattern"], value) is None:
            return f"{name} must match {schema['pattern']}"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            return f"{name} must have at least {schema['minItems']} items"
        if "maxItems" in schema and len(value) > schema["maxItems"]:
            return f"{name} must have at most {schema['maxItems']} items"
    return None


def _parts_problem(value: object, schema: Mapping[str, Any], where: str) -> str | None:
    if isinstance(value, list) and "items" in schema:
        parts = (value_problem(part, schema["items"], f"{where}[{index}]") for index, part in enumerate(value))
        return next((problem for problem in parts if problem), None)
    if not isinstance(value, dict):
        return None
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", []) if name not in value]
    if missing:
        return f"{', '.join(_join(where, name) for name in missing)} missing"
    for name, part in value.items():
        if name in properties:
            if problem := value_problem(part, properties[name], _join(where, name)):
                return problem
        elif schema.get("additionalProperties", True) is False:
            known = f"; there {'is' if len(properties) == 1 else 'are'} {', '.join(properties)}" if properties else ""
            return f"{_join(where, name)} is not a known parameter{known}"
    return None


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
