"""What a tool environment says is read strictly."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spadework.environment.tool_calls import (
    Call,
    NotToolObservation,
    decode_inspection,
    decode_observation,
    encode_calls,
    encode_text,
    read_calls,
    readable,
)

USER = {"role": "user", "content": "Close it."}
RESULT = {"role": "tool", "id": "c", "name": "close", "content": "ok", "executed": True}
TOOL = {
    "type": "function",
    "function": {"name": "close", "description": "Closes.", "parameters": {"type": "object", "properties": {}}},
}
INSIDE = {
    "position": 0,
    "instructions": ["Close it."],
    "criteria": [{"holds": False, "problem": "", "reads": [["a", "b"]]}],
    "state": {"a": {"b": 1}},
}


def refused(value: object, first: bool = False) -> bool:
    try:
        decode_observation(value if isinstance(value, str) else json.dumps(value), first)
    except NotToolObservation:
        return True
    return False


def test_what_is_in_the_notation_is_read() -> None:
    opening = decode_observation(json.dumps({"messages": [USER], "tools": [TOOL]}), first=True)
    assert (opening.told, opening.tools) == (("Close it.",), (TOOL,))
    later = decode_observation(json.dumps({"messages": [RESULT, USER]}))
    assert [(result.id, result.content) for result in later.results] == [("c", "ok")]


@pytest.mark.parametrize(
    "value",
    [
        "no JSON",
        "[]",
        "[" * 5000,
        {"messages": []},
        {"messages": "x"},
        {"messages": [USER] * 65},
        {"messages": [USER], "tools": [TOOL]},
        {"messages": [USER], "state": 1},
        {"messages": [{**USER, "name": "x"}]},
        {"messages": [{**USER, "role": "assistant"}]},
        {"messages": [{**USER, "content": 1}]},
        {"messages": [{**RESULT, "executed": 1}]},
        {"messages": [{**RESULT, "extra": ""}]},
        {"messages": ["x"]},
        '{"messages": [{"role": "user", "content": "\\ud800"}]}',
    ],
)
def test_what_is_not_in_the_notation_is_refused(value: object) -> None:
    assert refused(value)


@pytest.mark.parametrize(
    "tools",
    [
        [],
        "x",
        [TOOL] * 65,
        [{"type": "function"}],
        [{**TOOL, "type": "tool"}],
        [{"type": "function", "function": {**TOOL["function"], "parameters": {"$ref": "x"}}}],
        [{"type": "function", "function": {**TOOL["function"], "name": 1}}],
        [{"type": "function", "function": {**TOOL["function"], "strict": True}}],
    ],
)
def test_tools_that_are_none_are_refused(tools: object) -> None:
    assert refused({"messages": [USER], "tools": tools}, first=True)


@pytest.mark.parametrize(
    "change",
    [
        {"position": "0"},
        {"instructions": []},
        {"instructions": [1]},
        {"criteria": [{"holds": 3, "problem": "", "reads": []}]},
        {"criteria": [{"holds": True, "problem": None, "reads": []}]},
        {"criteria": [{"holds": True, "problem": "", "reads": [[1]]}]},
        {"criteria": 5},
    ],
)
def test_forged_inspections_are_refused(change: dict[str, object]) -> None:
    assert decode_inspection(json.dumps(INSIDE)).criteria[0].reads == (("a", "b"),)
    with pytest.raises(NotToolObservation):
        decode_inspection(json.dumps({**INSIDE, **change}))


@given(st.text(), st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3))
def test_actions_come_back_as_they_were(text: str, arguments: dict[str, object]) -> None:
    assert read_calls(encode_text(text)) == []
    call = Call("a", "b", arguments)
    assert read_calls(encode_calls([call, Call("c", "d", problem="wrong")])) == [call, Call("c", "d", problem="wrong")]


def test_observations_are_shown_as_people_read_them() -> None:
    assert readable("You see a door.") == "You see a door."
    assert readable(json.dumps({"messages": [RESULT, USER]})) == "[close] ok\nClose it."
    assert readable(json.dumps({"messages": [USER], "tools": [TOOL]})) == "[tools: close]\nClose it."
