from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spadework.environment.actions import NoAction, NoActionReason, ParsedAction, parse_action


def boxed(reply: str) -> str:
    parsed = parse_action(reply, "boxed")
    assert isinstance(parsed, ParsedAction), parsed
    return parsed.action


def refused(reply: str, format: str = "boxed") -> NoActionReason:
    parsed = parse_action(reply, "raw" if format == "raw" else "boxed")
    assert isinstance(parsed, NoAction), parsed
    assert parsed.action == ""
    return parsed.reason


def test_the_last_box_wins() -> None:
    assert boxed(r"First \boxed{left}, no: \boxed{right}.") == "right"


def test_the_last_balanced_box_wins_over_a_later_open_one() -> None:
    assert boxed(r"\boxed{left} or \boxed{right") == "left"
    assert boxed(r"\boxed{open \boxed{inner}") == "inner"


def test_nested_braces_are_kept_whole() -> None:
    assert boxed(r"\boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert boxed(r'\boxed{{"move": {"to": 3}}}') == '{"move": {"to": 3}}'


def test_the_innermost_of_nested_boxes_counts() -> None:
    assert boxed(r"\boxed{\boxed{5}}") == "5"


def test_stray_braces_do_not_matter() -> None:
    assert boxed(r"} { set {1 \boxed{a} } {") == "a"


def test_whitespace_around_the_action_goes() -> None:
    assert boxed("\\boxed {\n take lamp \n}") == "take lamp"
    assert boxed(r"\boxed{}") == ""


def test_boxes_in_thinking_do_not_count() -> None:
    assert boxed(r"<think>\boxed{draft}</think> \boxed{final}") == "final"
    assert boxed(r"\boxed{final} <think>\boxed{draft}</think>") == "final"
    assert refused(r"<think>\boxed{draft}</think> so it is draft") is NoActionReason.NO_BOX


def test_a_prompted_thinking_block_ends_at_its_closing_tag() -> None:
    assert boxed(r"\boxed{draft} hm </think> \boxed{final}") == "final"
    assert refused(r"\boxed{draft} hm </think> done") is NoActionReason.NO_BOX


def test_unclosed_thinking_hides_what_follows() -> None:
    assert refused(r"<think> \boxed{draft}") is NoActionReason.THINKING_UNCLOSED
    assert boxed(r"\boxed{kept} <think> \boxed{draft}") == "kept"


def test_no_box_is_never_guessed() -> None:
    assert refused("The answer is 42.") is NoActionReason.NO_BOX
    assert refused("") is NoActionReason.NO_BOX
    assert refused(r"\boxed{42") is NoActionReason.UNBALANCED_BOX


def test_raw_takes_everything_outside_thinking() -> None:
    assert parse_action("<think>x</think>\n look around \n", "raw") == ParsedAction("look around")
    assert refused("<think>x</think>  ", "raw") is NoActionReason.EMPTY
    assert refused("<think>x", "raw") is NoActionReason.THINKING_UNCLOSED


@given(st.lists(st.sampled_from(["\\boxed{", "{", "}", "<think>", "</think>", "a", " ", "\\boxed", "\n"])))
def test_any_mixture_parses_to_balanced_text_or_a_named_failure(pieces: list[str]) -> None:
    parsed = parse_action("".join(pieces), "boxed")
    if isinstance(parsed, ParsedAction):
        depth = 0
        for character in parsed.action:
            depth += {"{": 1, "}": -1}.get(character, 0)
            assert depth >= 0
        assert depth == 0
        assert "\\boxed{" in "".join(pieces)
    else:
        assert parsed.reason in NoActionReason


def balanced(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(children, max_size=4).map(lambda parts: "{" + "".join(parts) + "}")


@given(
    st.text(alphabet="ab {}\\x"),
    st.recursive(st.text(alphabet="xyz 123"), balanced, max_leaves=8),
    st.text(alphabet="ab }"),
)
def test_a_balanced_box_is_found_after_anything_and_before_anything_without_a_box(
    before: str, content: str, after: str
) -> None:
    assert boxed(f"{before}\\boxed{{{content}}}{after}") == content.strip()


@pytest.mark.parametrize(
    "piece", ["\\boxed{", "{", "}", "\\boxed", "\\boxed ", "<think>", "</think>", "<think></think>", "\\boxed{}", "x"]
)
def test_a_million_hostile_characters_take_linear_time(piece: str) -> None:
    reply = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
    start = time.perf_counter()
    parse_action(reply, "boxed")
    parse_action(reply, "raw")
    assert time.perf_counter() - start < 10.0
