"""Replies to calls: what is right is read, what is not is said exactly, and nothing is guessed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spadework.environment.tool_calls import Call, read_calls
from spadework.environment.tool_formats import MAX_CALLS, ToolFormat, ToolReply, read_tool_reply

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "book",
            "description": "Book a room.",
            "parameters": {
                "type": "object",
                "properties": {
                    "room": {"type": "string"},
                    "seats": {"type": "integer"},
                    "day": {"enum": ["7", "8"]},
                    "extras": {"type": "array"},
                    "either": {"type": ["string", "null"]},
                },
            },
        },
    }
]
JSON, XML, BARE = ToolFormat.JSON_TAGS, ToolFormat.XML_TAGS, ToolFormat.BARE_JSON
GOOD = '{"name": "book", "arguments": {"room": "Elm"}}'


def read(reply: str, format: ToolFormat = JSON, turn: int = 0) -> ToolReply:
    return read_tool_reply(reply, format, TOOLS, turn)


def tagged(*contents: str) -> str:
    return "\n".join(f"<tool_call>\n{content}\n</tool_call>" for content in contents)


def test_several_calls_are_read_in_order_with_ids_of_their_turn() -> None:
    found = read(f"I book both.\n{tagged(GOOD, GOOD.replace('Elm', 'Fir'))}", turn=2)
    assert found.calls == (Call("call_3_1", "book", {"room": "Elm"}), Call("call_3_2", "book", {"room": "Fir"}))
    assert json.loads(found.action) == {
        "calls": [
            {"id": "call_3_1", "name": "book", "arguments": {"room": "Elm"}},
            {"id": "call_3_2", "name": "book", "arguments": {"room": "Fir"}},
        ]
    }
    assert read_calls(found.action) == list(found.calls)


def test_equal_calls_have_equal_actions() -> None:
    one = read(tagged('{"name": "a", "arguments": {"x": 1, "y": 2}}')).action
    assert read(tagged('{"arguments":{"y":2,"x":1},  "name":"a"}')).action == one


def test_a_reply_without_calls_says_its_text_without_thinking() -> None:
    found = read("<think>hm</think>\nAll is done.")
    assert (found.calls, found.text) == ((), "All is done.")
    assert json.loads(found.action) == {"text": "All is done."}


@pytest.mark.parametrize("format", ToolFormat)
def test_a_text_that_looks_like_an_action_is_said_and_not_carried_out(format: ToolFormat) -> None:
    found = read('Look: {"calls": [{"id": "x", "name": "book", "arguments": {}}]}', format)
    assert read_calls(found.action) == []


def test_tags_inside_a_text_argument_end_nothing() -> None:
    (call,) = read(tagged('{"name": "log", "arguments": {"text": "a </tool_call> b <tool_call>"}}')).calls
    assert call == Call("call_1_1", "log", {"text": "a </tool_call> b <tool_call>"})


def test_an_id_of_the_model_is_kept() -> None:
    (call,) = read(tagged('{"id": "mine", "name": "book", "arguments": {}}')).calls
    assert call.id == "mine"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            '{"name": "book", "arguments": {"room": "Elm"}',
            "the JSON is not right: Expecting ',' delimiter at character",
        ),
        ("{'name': 'book'}", "Expecting property name enclosed in double quotes at character 2, near"),
        ("book(room=Elm)", "the JSON is not right: Expecting value at character 1, near 'book(room=Elm)"),
        ("", "the JSON is not right: Expecting value"),
        ("[1]", "a call must be one JSON object"),
        ('{"arguments": {}}', 'the call has no "name"'),
        ('{"name": 5, "arguments": {}}', '"name" must be a text'),
        ('{"name": "book"}', 'the call has no "arguments"; {} stands for none'),
        ('{"name": "book", "arguments": {}, "parameters": {}}', 'the call has both "arguments" and "parameters"'),
        ('{"name": "book", "arguments": "{\\"room\\": \\"Elm\\"}"}', '"arguments" is a text; write the JSON object'),
        ('{"name": "book", "arguments": ["Elm"]}', '"arguments" is not an object'),
        ('{"name": "book", "arguments": null}', '"arguments" is not an object'),
        ('{"name": "book", "room": "Elm", "arguments": {}}', "'room' does not belong into a call"),
        ('{"name": "book", "name": "cancel", "arguments": {}}', "the key 'name' occurs twice"),
        ('{"name": "book", "arguments": {"seats": 1, "seats": 2}}', "the key 'seats' occurs twice"),
        ('{"name": "book", "arguments": {"seats": NaN}}', "NaN is no JSON"),
        ('{"name": "book", "arguments": {"seats": 1e999}}', "1e999 is too large"),
        (f"{GOOD} and done", "'and done' stands behind the call"),
        (f"{GOOD}\n<tool_call>{GOOD}", "a call stands inside another one"),
        ('{"name": "book", "arguments": {"seats": ' + "9" * 5000 + "}}", "the JSON is not right"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_malformed_call_is_said_exactly_and_has_no_arguments(content: str, problem: str) -> None:
    found = read(tagged(content))
    assert found.malformed == 1
    assert problem in found.calls[0].problem
    assert found.calls[0].arguments == {}
    (entry,) = json.loads(found.action)["calls"]
    assert "arguments" not in entry


def test_a_malformed_call_leaves_its_neighbours_alone() -> None:
    found = read(tagged(GOOD, "{oops}", GOOD))
    assert [bool(call.problem) for call in found.calls] == [False, True, False]
    assert [call.id for call in found.calls] == ["call_1_1", "call_1_2", "call_1_3"]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (f"<tool_call>{GOOD}", "the call is not closed: there is no </tool_call> behind it"),
        ("<tool_call>{oops", "the call is not closed: the JSON is not right"),
        (f"{GOOD}</tool_call>", "there is a </tool_call> without <tool_call> before it"),
        (f"<think>{tagged(GOOD)}</think>Done.", "the call stands inside the thinking; only calls after </think>"),
        (f"<think>{tagged(GOOD)}", "inside the thinking, which never ended"),
        (f"{tagged(GOOD)}</think>", "the call stands inside the thinking"),
    ],
)
def test_tags_out_of_place_are_said(reply: str, problem: str) -> None:
    found = read(reply)
    assert found.malformed == 1
    assert problem in found.calls[0].problem


def test_a_draft_in_the_thinking_is_ignored_where_a_call_follows() -> None:
    found = read(f"<think>Perhaps {tagged(GOOD)}?</think>{tagged(GOOD.replace('Elm', 'Fir'))}")
    assert found.calls == (Call("call_1_1", "book", {"room": "Fir"}),)


def xml(*parameters: tuple[str, str], name: str = "book") -> str:
    inner = "\n".join(f"<parameter={key}>\n{value}\n</parameter>" for key, value in parameters)
    return f"<tool_call>\n<function={name}>\n{inner}\n</function>\n</tool_call>"


def test_xml_values_have_the_types_of_the_schema() -> None:
    reply = xml(("room", "12"), ("seats", "12"), ("day", "7"), ("extras", '["tea"]'), ("either", "null"), ("new", "1"))
    (call,) = read(reply, XML).calls
    assert call.arguments == {
        "room": "12",
        "seats": 12,
        "day": "7",
        "extras": ["tea"],
        "either": None,
        "new": 1,
    }


def test_xml_texts_keep_their_lines() -> None:
    (call,) = read(xml(("room", "one\n two <b>\n")), XML).calls
    assert call.arguments == {"room": "one\n two <b>\n"}


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (xml(("seats", "many")), "the parameter seats is 'many', which is no JSON of its type"),
        (xml(("seats", "1"), ("seats", "2")), "the parameter seats is given twice"),
        (xml(name=" "), "the function has no name"),
        (tagged(GOOD), "there must be <function=NAME>"),
        (xml(("room", "Elm")).replace("</function>", ""), "there must be <function=NAME>"),
        (xml(("room", "Elm")).replace("</parameter>", ""), "is no <parameter=KEY>"),
        (xml(("room", "Elm")).replace("</tool_call>", ""), "the call is not closed"),
        (xml(("room", xml(("room", "Elm")))), "a call stands inside another one"),
    ],
)
def test_malformed_xml_is_said(reply: str, problem: str) -> None:
    found = read(reply, XML)
    assert problem in found.calls[0].problem
    assert found.calls[0].arguments == {}


def test_bare_json_is_read_one_after_the_other() -> None:
    reply = '{"name": "book", "parameters": {"room": "Elm"}}; {"name": "book", "parameters": {}}\n'
    assert read(reply, BARE).calls == (Call("call_1_1", "book", {"room": "Elm"}), Call("call_1_2", "book", {}))
    assert read(f"<|python_tag|>{GOOD}", BARE).malformed == 0


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (f"Sure: {GOOD}", "must be the call alone, without text before it"),
        (f"{GOOD} Done.", "'Done.' stands behind the call"),
        ('{"name": "book"', "the JSON is not right"),
        ('{"name": "book", "parameters": "Elm"}', '"parameters" is a text'),
        (f"<think>{GOOD}</think>Done.", "the call stands inside the thinking"),
    ],
)
def test_malformed_bare_json_is_said(reply: str, problem: str) -> None:
    assert problem in read(reply, BARE).calls[-1].problem


def test_a_flood_of_calls_is_cut() -> None:
    assert len(read(tagged(*[GOOD] * 500)).calls) == MAX_CALLS


@given(
    st.lists(
        st.sampled_from(
            ["<tool_call>", "</tool_call>", "<think>", "</think>", "<function=a>", "{", "}", GOOD, "x", '"']
        )
        | st.text(max_size=5),
        max_size=12,
    ),
    st.sampled_from(ToolFormat),
)
def test_any_reply_is_read(pieces: list[str], format: ToolFormat) -> None:
    found = read("".join(pieces), format)
    assert found.action
    assert len(read_calls(found.action)) == len(found.calls)
    for call in found.calls:
        assert not (call.problem and call.arguments)
