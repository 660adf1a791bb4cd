"""What fits a schema here fits it for the `jsonschema` package, and the other way round, in the part that is supported.

The one difference is left out of what is drawn: 3.0 is no integer here.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from spadework.sandbox.inside.schemas import parameters_problem, schema_problem, value_problem

NAMES = st.sampled_from(("a", "b", "name", "b-c", "ä", ""))
FRACTIONS = st.integers(-8, 8).map(lambda eighths: eighths + 0.125)
"""Never whole."""
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers(-(10**20), 10**20)
    | FRACTIONS
    | st.text("abä1 \n😀", max_size=4)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
TYPES = st.sampled_from(("string", "integer", "number", "boolean", "array", "object", "null"))
COUNTS = st.integers(0, 3)
NUMBERS = st.integers(-3, 3) | FRACTIONS
PATTERNS = st.sampled_from(("a", "^a", "b$", "^[ab]*$", "\\d", "a|1", "^$", "ä", "(ab)+", ".", "\\s"))


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    """A schema of the supported part: any of its keywords, whether or not they suit the type."""
    inner = schemas(depth - 1) if depth else st.just({})
    properties = draw(st.none() | st.dictionaries(NAMES, inner, max_size=3))
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=4),
        "const": VALUES,
        "anyOf": st.lists(inner, min_size=1, max_size=3),
        "items": inner,
        "additionalProperties": st.booleans(),
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "exclusiveMinimum": NUMBERS,
        "exclusiveMaximum": NUMBERS,
        "minLength": COUNTS,
        "maxLength": COUNTS,
        "minItems": COUNTS,
        "maxItems": COUNTS,
        "pattern": PATTERNS,
        "description": st.text(max_size=5),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True))
    schema = {keyword: draw(keywords[keyword]) for keyword in chosen}
    if properties is not None:
        schema["properties"] = properties
        if properties:
            schema["required"] = draw(st.lists(st.sampled_from(sorted(properties)), max_size=2, unique=True))
    return schema


def likely(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values near ``schema``, so that many fit: what it names, values with its properties, and any others."""
    near: list[st.SearchStrategy[Any]] = [VALUES]
    near += [st.sampled_from(schema["enum"])] if "enum" in schema else []
    near += [st.just(schema["const"])] if "const" in schema else []
    near += [likely(one) for one in schema.get("anyOf", ())]
    near += [st.lists(likely(schema["items"]), max_size=3)] if "items" in schema else []
    if properties := schema.get("properties"):
        parts = {name: likely(part) for name, part in properties.items()}
        required = {name: parts[name] for name in schema.get("required", ())}
        others = {name: part for name, part in parts.items() if name not in required}
        near.append(st.fixed_dictionaries(required, optional=others))
    return st.one_of(near)


@settings(max_examples=1500, deadline=None)
@given(data=st.data())
def test_a_value_fits_a_schema_here_if_and_only_if_it_does_there(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    value = data.draw(likely(schema))
    assert schema_problem(schema) is None
    Draft202012Validator.check_schema(schema)
    problem = value_problem(value, schema)
    assert (problem is None) == Draft202012Validator(schema).is_valid(value), problem


@settings(max_examples=300, deadline=None)
@given(schema=VALUES)
def test_what_is_accepted_as_parameters_is_a_schema_there(schema: Any) -> None:
    for candidate in (schema, {"type": "object", "properties": {"a": schema}}):
        if parameters_problem(candidate) is None:
            Draft202012Validator.check_schema(candidate)


@pytest.mark.parametrize(("value", "fits"), [([1], True), ([True], False), ([1.0], True), ([0], False)])
def test_a_boolean_is_no_number_also_within_a_list(value: list[Any], fits: bool) -> None:
    for schema in ({"const": [1]}, {"enum": [[1]]}):
        assert (value_problem(value, schema) is None) is fits
        assert Draft202012Validator(schema).is_valid(value) is fits


def test_a_whole_number_with_a_point_is_an_integer_there_and_not_here() -> None:
    assert Draft202012Validator({"type": "integer"}).is_valid(3.0)
    assert value_problem(3.0, {"type": "integer"}) is not None
