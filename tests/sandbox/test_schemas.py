"""Schemas of tools: which are accepted, and what fits them."""

from __future__ import annotations

import pytest

from spadework.sandbox.inside.schemas import parameters_problem, schema_problem, value_problem

PARAMETERS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "description": "who"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "share": {"type": ["number", "null"], "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "level": {"enum": ["low", "high", 3, True]},
        "days": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
        "either": {"anyOf": [{"type": "boolean"}, {"const": "auto"}]},
        "place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def test_the_supported_part_has_no_problem() -> None:
    assert parameters_problem(PARAMETERS) is None


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ([], "is array, not a JSON Schema object"),
        ({}, 'has the type None; the parameters of a tool are of type "object"'),
        ({"type": "string"}, "has the type 'string'; the parameters of a tool are of type \"object\""),
        ({"type": "object", "$ref": "http://x"}, "uses '$ref', which is not supported"),
        ({"type": "object", "properties": []}, "has `properties` that are not an object"),
        ({"type": "object", "properties": {"a": {"type": "str"}}}, "has the type 'str' at a; there are string"),
        ({"type": "object", "properties": {"a": str}}, "is a Python type at a, not a JSON Schema object"),
        ({"type": "object", "properties": {"a": {"items": {"enum": []}}}}, "has an `enum` at a[] that is not a list"),
        ({"type": "object", "required": ["b"]}, "requires 'b', which is not among its properties"),
        ({"type": "object", "required": "b"}, "has a `required` that is not a list of names"),
        ({"type": "object", "additionalProperties": {}}, "has an `additionalProperties` that is neither"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "`pattern` at a that is not a regular expression"),
        ({"type": "object", "properties": {"a": {"minLength": -1}}}, "has a `minLength` at a that is not a count"),
        ({"type": "object", "properties": {"a": {"minimum": "1"}}}, "has a `minimum` at a that is not a number"),
        ({"type": "object", "properties": {"a": {"anyOf": []}}}, "has an `anyOf` at a that is not a list of schemas"),
    ],
)
def test_what_is_no_schema_is_named_with_its_place(schema: object, problem: str) -> None:
    assert problem in (parameters_problem(schema) or "")


def test_a_schema_that_nests_without_end_is_refused() -> None:
    schema: dict[str, object] = {"type": "integer"}
    for _ in range(50):
        schema = {"type": "array", "items": schema}
    assert "nested deeper than 8" in (schema_problem(schema) or "")


@pytest.mark.parametrize(
    "value",
    [
        {"name": "Ada"},
        {"name": "Ada", "count": 9, "share": None, "level": True, "days": [1, 2], "code": "AB"},
        {"name": "Ada", "either": "auto", "place": {"x": 1, "y": "free"}, "share": 0.5, "level": 3},
    ],
)
def test_values_that_fit(value: object) -> None:
    assert value_problem(value, PARAMETERS) is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, "name missing"),
        ({"name": 7}, "name must be of type string, not integer"),
        ({"name": "A"}, "name must have at least 2 characters"),
        ({"name": "Adadad"}, "name must have at most 5 characters"),
        ({"name": "Ada", "count": True}, "count must be of type integer, not boolean"),
        ({"name": "Ada", "count": 2.0}, "count must be of type integer, not number"),
        ({"name": "Ada", "count": "2"}, "count must be of type integer, not string"),
        ({"name": "Ada", "count": 0}, "count must be at least 1"),
        ({"name": "Ada", "count": 10}, "count must be at most 9"),
        ({"name": "Ada", "share": 1}, "share must be less than 1"),
        ({"name": "Ada", "share": 0}, "share must be more than 0"),
        ({"name": "Ada", "share": float("inf")}, "share must be a finite number"),
        ({"name": "Ada", "level": 1}, "level must be one of 'low', 'high', 3, True, not 1"),
        ({"name": "Ada", "days": []}, "days must have at least 1 items"),
        ({"name": "Ada", "days": [1, "2"]}, "days[1] must be of type integer, not string"),
        ({"name": "Ada", "code": "ab"}, "code must match ^[A-Z]{2}$"),
        ({"name": "Ada", "either": "on"}, "either must be of type boolean, not string or either must be 'auto'"),
        ({"name": "Ada", "place": {}}, "place.x missing"),
        ({"name": "Ada", "nmae": 1}, "nmae is not a known parameter; there are name, count"),
        ([], "the value must be of type object, not array"),
    ],
)
def test_a_value_that_does_not_fit_is_told_why(value: object, problem: str) -> None:
    assert problem in (value_problem(value, PARAMETERS) or "")
