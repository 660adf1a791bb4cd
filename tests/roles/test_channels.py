"""Replies in channels: what counts as said, what as thought and what as a call, and what becomes of earlier turns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from families import GPT_OSS, OTHER_CHANNELS, TIDIES_ANSWERS
from hypothesis import given, settings
from hypothesis import strategies as st

from spadework.environment.actions import NoAction, parse_action
from spadework.environment.extraction import extract_program
from spadework.environment.tool_calls import ToolMessage
from spadework.environment.tool_formats import ToolFormat
from spadework.roles.channels import ChannelRendering
from spadework.roles.choosing import open_rendering
from spadework.roles.messages import Message
from spadework.roles.rendering import PROBE_TOOL, Ids, RenderingRefused
from spadework.roles.tool_rendering import as_messages, open_tool_rendering

RENDERING = open_rendering(GPT_OSS.tokenizer(), "local/gpt-oss", "low")
assert isinstance(RENDERING, ChannelRendering)
TOOLS = open_tool_rendering(RENDERING)
RETURN, CALL = RENDERING.stop_ids
MARKS = {str(token): id for id, token in RENDERING.tokenizer.added_tokens_decoder.items()}
END, START, CHANNEL, MESSAGE, CONSTRAIN = (
    MARKS[f"<|{mark}|>"] for mark in ("end", "start", "channel", "message", "constrain")
)

texts = st.text(st.characters(codec="utf-8"), max_size=40)
words = st.text("abc 12").map(lambda text: text.strip() or "a")
# Texts that look like marks, tags and actions.
traps = st.lists(
    st.sampled_from(
        [*MARKS, "<think>", "</think>", "\\boxed{9}", "final", " to=functions.paint_wall", "{}", "a ", "\n"]
    ),
    max_size=8,
).map("".join)
names = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
tagged = st.lists(st.sampled_from(["<think>", "</think>", "a "]), max_size=3).map("".join)
values = st.integers(-99, 99) | st.text('abc é"\\{}:1', max_size=8) | tagged | st.lists(st.integers(-9, 9), max_size=3)
arguments = st.dictionaries(names, values, max_size=3)


def plain(text: str) -> Ids:
    """``text`` as a model writes it, in which no letters are a mark."""
    return tuple(token for char in text for token in RENDERING.encode(char))


def message(channel: str, body: Ids, to: str = "", close: int = END) -> Ids:
    """One message of a reply, as gpt-oss writes it."""
    header = (*plain(channel + (f" to={to} " if to else "")), *((CONSTRAIN, *plain("json")) if to else ()))
    return (CHANNEL, *header, MESSAGE, *body, close)


def reply(*messages: Ids) -> Ids:
    following = (START, *RENDERING.encode("assistant"))
    return tuple(token for number, one in enumerate(messages) for token in (*(following if number else ()), *one))


@settings(max_examples=30, deadline=None)
@given(first=texts, turns=st.lists(st.tuples(words, words, texts), min_size=1, max_size=3))
def test_only_analysis_and_the_end_of_a_reply_differ_from_one_full_render(
    first: str, turns: list[tuple[str, str, str]]
) -> None:
    messages = [Message("user", first)]
    ids = history = RENDERING.first_prompt(messages)
    for thought, answer, observation in turns:
        said = (CHANNEL, *RENDERING.encode("final"), MESSAGE, *RENDERING.encode(answer))
        sampled = reply(message("analysis", plain(thought)), (*said, RETURN))
        after = RENDERING.next_prompt(ids, sampled, [Message("user", observation)])
        history = (*history, *said, END, *after[len(ids) + len(sampled) :])
        ids = after
        messages += [Message("assistant", answer), Message("user", observation)]
    assert history == RENDERING.first_prompt(messages)


@settings(max_examples=25, deadline=None)
@given(turns=st.lists(st.tuples(names, arguments, texts, st.none() | words), min_size=1, max_size=3))
def test_calls_and_results_turn_by_turn_give_the_ids_of_one_full_render(
    turns: list[tuple[str, dict[str, Any], str, str | None]],
) -> None:
    conversation: list[dict[str, Any]] = [{"role": "user", "content": "Paint."}]
    ids = RENDERING.first_prompt([Message("user", "Paint.")], [PROBE_TOOL])
    for number, (name, called, result, request) in enumerate(turns):
        call = {"type": "function", "function": {"name": name, "arguments": called}}
        conversation.append({"role": "assistant", "content": "", "tool_calls": [call]})
        full = RENDERING.render_conversation(conversation, [PROBE_TOOL], open=False)
        assert full[: len(ids)] == ids
        new = [ToolMessage("tool", result, f"c{number}", name)]
        if request is not None:
            new.append(ToolMessage("user", request))
        sampled = full[len(ids) :]
        (read,) = TOOLS.read(RENDERING.reply_with_calls(sampled), [PROBE_TOOL], 0).calls
        assert (read.name, read.arguments, read.problem) == (name, called, "")
        ids = TOOLS.next_prompt(ids, sampled, new)
        conversation.append({"role": "tool", "content": result})
        if request is not None:
            conversation.append({"role": "user", "content": request})
    if not any(mark in result for _, _, result, _ in turns for mark in MARKS):
        assert ids == RENDERING.render_conversation(conversation, [PROBE_TOOL])


def test_results_of_one_turn_are_named_after_their_own_calls() -> None:
    prompt = RENDERING.first_prompt([Message("user", "Paint.")], [PROBE_TOOL])
    sampled = reply(message("commentary", plain("{}"), "functions.paint_wall", CALL))
    new = [
        ToolMessage("tool", "one", "c1", "paint_wall"),
        ToolMessage("tool", "two", "c2", "open_door"),
        ToolMessage("tool", "three", "c3", ""),
        ToolMessage("user", "Go on."),
    ]
    assert RENDERING.decode(TOOLS.next_prompt(prompt, sampled, new)[len(prompt) + len(sampled) :]) == (
        '<|start|>functions.paint_wall to=assistant<|channel|>commentary<|message|>"one"<|end|>'
        '<|start|>functions.open_door to=assistant<|channel|>commentary<|message|>"two"<|end|>'
        '<|start|>functions.unknown to=assistant<|channel|>commentary<|message|>"three"<|end|>'
        "<|start|>user<|message|>Go on.<|end|><|start|>assistant"
    )
    assert [one.role for one in as_messages(new)] == ["tool", "tool", "tool", "user"]


def test_the_end_of_a_message_ends_no_reply() -> None:
    prompt = RENDERING.first_prompt([Message("user", "q")])
    assert END not in RENDERING.stop_ids
    thought = message("analysis", plain("hm"))
    with pytest.raises(ValueError, match="was cut"):
        RENDERING.next_prompt(prompt, thought, [Message("user", "next")])
    for stop in (RETURN, CALL):
        after = RENDERING.next_prompt(prompt, (*thought, stop), [Message("user", "next")])
        assert RENDERING.decode(after[len(prompt) + len(thought) :]) == (
            f"{RENDERING.decode([stop])}<|start|>user<|message|>next<|end|><|start|>assistant"
        )


@settings(max_examples=60, deadline=None)
@given(thoughts=st.lists(traps, max_size=3), answer=words, cut=st.booleans())
def test_only_the_final_channel_is_searched_for_an_action(thoughts: list[str], answer: str, cut: bool) -> None:
    asides = [message("analysis", plain(thought)) for thought in thoughts]
    asides.append(message("commentary", plain("I say \\boxed{8} first.")))
    asides.append(message("commentary", plain('{"guess": "\\boxed{7}"}'), "functions.guess"))
    asides.append((*plain("\\boxed{6}"), END))
    said = message("final", plain(f"So: \\boxed{{{answer}}}"), close=RETURN)
    assert parse_action(RENDERING.reply_text(reply(*asides, said)), "boxed").action == answer
    assert parse_action(RENDERING.reply_text(reply(*asides, said)), "raw").action == f"So: \\boxed{{{answer}}}"
    without = reply(*asides)[: -1 if cut else None]
    assert isinstance(parse_action(RENDERING.reply_text(without), "boxed"), NoAction)
    assert isinstance(parse_action(RENDERING.reply_text(without), "raw"), NoAction)


@settings(max_examples=60, deadline=None)
@given(sampled=st.lists(st.integers(0, 330), max_size=24))
def test_any_ids_are_read_and_nothing_in_them_is_lost_to_the_record(sampled: list[int]) -> None:
    shown = RENDERING.reply_text(sampled)
    parts = list(RENDERING.parts(sampled))
    kept = sum(len(part.body) for part in parts)
    assert len(shown) >= kept
    for call in TOOLS.read(RENDERING.reply_with_calls(sampled), [PROBE_TOOL], 0).calls:
        assert call.problem or sampled[-1] == CALL


def test_a_speaker_that_the_model_makes_up_says_nothing() -> None:
    forged = (
        *message("analysis", plain("hm")),
        START,
        *RENDERING.encode("user"),
        *message("final", plain("Won!"))[:-1],
    )
    assert isinstance(parse_action(RENDERING.reply_text((*forged, RETURN)), "raw"), NoAction)


def test_the_record_shows_thinking_and_answer_apart() -> None:
    sampled = reply(message("analysis", plain("hm")), message("final", plain("red"), close=RETURN))
    assert RENDERING.reply_text(sampled) == "<think>\nhm\n</think>\n\nred"
    assert RENDERING.reply_text(sampled[:5]).startswith("<think>\n")
    program = "class GuessEnv:\n    pass\n"
    written = reply(
        message("analysis", plain("```python\nx = 1\n```")),
        message("final", plain(f"```python\n{program}```"), close=RETURN),
    )
    assert extract_program(RENDERING.reply_text(written)).strip() == program.strip()


@settings(max_examples=30, deadline=None)
@given(thought=traps, name=names, given=arguments)
def test_a_call_is_read_behind_any_thought_and_only_when_it_is_whole(
    thought: str, name: str, given: dict[str, Any]
) -> None:
    body = plain(json.dumps(given, ensure_ascii=False))
    sampled = reply(message("analysis", plain(thought)), message("commentary", body, f"functions.{name}", CALL))
    (call,) = TOOLS.read(RENDERING.reply_with_calls(sampled), [PROBE_TOOL], 2).calls
    assert (call.name, call.arguments, call.problem, call.id) == (name, given, "", "call_3_1")
    for length in range(len(sampled)):
        found = TOOLS.read(RENDERING.reply_with_calls(sampled[:length]), [PROBE_TOOL], 0).calls
        assert all(one.problem for one in found), RENDERING.decode(sampled[:length])


@pytest.mark.parametrize("tail", ["", " and not </think>", " <think> of it", " as <|channel|> says"])
def test_tags_in_an_answer_hide_no_action(tail: str) -> None:
    said = message("final", plain(f"\\boxed{{5}}{tail}"), close=RETURN)
    assert parse_action(RENDERING.reply_text(said), "boxed").action == "5"


def test_a_header_without_its_space_is_read_and_one_with_a_mark_in_its_recipient_is_answered() -> None:
    json_mark, body = (CONSTRAIN, *plain("json")), (MESSAGE, *plain("{}"), CALL)
    to = plain(" to=functions.paint_wall")
    for header in (
        (*to, CHANNEL, *plain("commentary"), *json_mark),
        (CHANNEL, *plain("commentary"), *to, *json_mark),
        (*to, CHANNEL, *plain("commentary"), CHANNEL, *plain("commentary")),
    ):
        (call,) = TOOLS.read(RENDERING.reply_with_calls((*header, *body)), [PROBE_TOOL], 0).calls
        assert (call.name, call.problem) == ("paint_wall", "")
    leaked = (CHANNEL, *plain("commentary"), *to, CHANNEL, *plain("commentary"), *body)
    (call,) = TOOLS.read(RENDERING.reply_with_calls(leaked), [PROBE_TOOL], 0).calls
    assert call.name != "paint_wall"
    said = (CHANNEL, *plain("final"), *json_mark, MESSAGE, *plain("\\boxed{5}"), RETURN)
    assert parse_action(RENDERING.reply_text(said), "boxed").action == "5"


@settings(max_examples=30, deadline=None)
@given(name=names, given=arguments)
def test_a_call_that_is_thought_or_said_is_never_carried_out(name: str, given: dict[str, Any]) -> None:
    body = plain(json.dumps(given))
    written = plain(
        f"<|end|><|start|>assistant<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
        f"{json.dumps(given)}<|call|>"
    )
    for sampled in (
        message("analysis", written, close=CALL),
        message("final", written, close=RETURN),
        message("commentary", written, close=CALL),
    ):
        assert not TOOLS.read(RENDERING.reply_with_calls(sampled), [PROBE_TOOL], 0).calls
    thought = message("analysis", body, f"functions.{name}", CALL)
    (call,) = TOOLS.read(RENDERING.reply_with_calls(thought), [PROBE_TOOL], 0).calls
    assert call.problem == "the call stands in the channel 'analysis'; calls go to the channel commentary"


@pytest.mark.parametrize(
    ("body", "to", "close", "problem"),
    [
        ("{", "functions.paint_wall", CALL, "the JSON is not right: .* at character 2, near '{'"),
        ("", "functions.paint_wall", CALL, "the call has no arguments; {} stands for none"),
        ("[1]", "functions.paint_wall", CALL, "the arguments are not an object"),
        ("{}", "browser.search", CALL, "a call must go to functions.NAME, and this one goes to 'browser.search'"),
        ("{}", "functions.paint_wall", END, r"the call does not end in <\|call\|> behind its arguments"),
        ("{}", "functions.paint_wall", RETURN, r"the call does not end in <\|call\|> behind its arguments"),
        ("{} and {}", "functions.paint_wall", CALL, r"the call does not end in <\|call\|> behind its arguments"),
        ('{"a": 1, "a": 2}', "functions.paint_wall", CALL, "the key 'a' occurs twice"),
    ],
)
def test_a_call_that_is_not_right_is_named_and_not_repaired(body: str, to: str, close: int, problem: str) -> None:
    sampled = message("commentary", plain(body), to, close)
    (call,) = TOOLS.read(RENDERING.reply_with_calls(sampled), [PROBE_TOOL], 0).calls
    assert call.arguments == {}
    with pytest.raises(AssertionError, match=problem):
        assert not call.problem, call.problem


def test_the_effort_is_the_thinking_mode_and_stands_in_the_prompt() -> None:
    question = [Message("user", "q")]
    for thinking, effort in (("low", "low"), ("medium", "medium"), ("high", "high"), (True, "medium")):
        rendering = open_rendering(GPT_OSS.tokenizer(), "local", thinking)  # type: ignore[arg-type]
        text = rendering.decode(rendering.first_prompt(question))
        assert f"Reasoning: {effort}\n" in text
        assert "Current date: 2024-07-26\n" in text
    assert TOOLS.format is ToolFormat.CHANNELS


def test_thinking_in_a_channel_cannot_be_switched_off() -> None:
    with pytest.raises(RenderingRefused, match=r'agent\.thinking = false cannot switch off; set it to "low", "medium"'):
        open_rendering(GPT_OSS.tokenizer(), "local", thinking=False)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (OTHER_CHANNELS, "has the marks of harmony and writes replies in another way"),
        (TIDIES_ANSWERS, "changes more of earlier turns than their analysis and the mark that ended them"),
        (GPT_OSS.template.replace("'<|start|>assistant' }}", "'<|start|>model' }}"), "is not append-only"),
    ],
)
def test_other_channels_are_refused_by_name(template: str, reason: str) -> None:
    family = replace(GPT_OSS, template=template)
    with pytest.raises(RenderingRefused, match=f"the chat template of local {reason}"):
        open_rendering(family.tokenizer(), "local", thinking="low")
