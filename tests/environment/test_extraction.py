from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spadework.environment.extraction import extract_program
from spadework.environment.program import ProgramRejected, Rejection


def fenced(body: str, mark: str = "```", language: str = "python") -> str:
    return f"{mark}{language}\n{body}\n{mark}\n"


def kind(reply: str) -> Rejection:
    with pytest.raises(ProgramRejected) as caught:
        extract_program(reply)
    return caught.value.kind


def test_the_last_complete_python_block_wins() -> None:
    assert extract_program(fenced("draft = 1") + "Better:\n" + fenced("final = 2") + "Done.") == "final = 2\n"


def test_blocks_of_other_languages_do_not_count() -> None:
    assert (
        extract_program(fenced("x = 1") + fenced("ls", language="bash") + fenced("some text", language="")) == "x = 1\n"
    )


def test_a_block_that_names_no_language_counts_only_where_none_is_python() -> None:
    unnamed = fenced("draft = 1", language="") + fenced("final = 2", language="")
    assert extract_program("Plan.\n" + unnamed) == "final = 2\n"
    assert extract_program(fenced("x = 1") + unnamed) == "x = 1\n"
    for other in ("json", "{.json}", ".env", "#1"):
        assert kind(fenced("x = 1", language=other)) is Rejection.NO_PROGRAM


def test_a_draft_inside_thinking_is_not_the_program() -> None:
    assert extract_program("<think>\n" + fenced("draft = 1") + "</think>\n" + fenced("final = 2")) == "final = 2\n"
    assert kind("<think>\n" + fenced("draft = 1") + "</think>\nSorry.") is Rejection.NO_PROGRAM


def test_an_unclosed_fence_inside_thinking_does_not_swallow_the_program() -> None:
    reply = "<think>\n```python\nhalf = \n</think>\n" + fenced("final = 2")
    assert extract_program(reply) == "final = 2\n"


def test_thinking_that_the_prompt_opened_is_left_out() -> None:
    assert extract_program("Plan:\n" + fenced("draft = 1") + "</think>\n\n" + fenced("final = 2")) == "final = 2\n"
    assert extract_program("Plan:\n```python\nhalf\n</think>\n\n" + fenced("final = 2")) == "final = 2\n"


def test_thinking_tags_inside_the_program_are_code() -> None:
    body = 'text = action.split("</think>")[-1]\ntag = "<think>"'
    assert extract_program(fenced(body)) == body + "\n"


def test_unclosed_thinking_is_truncated_even_after_a_complete_block() -> None:
    assert kind("<think>\nand then") is Rejection.TRUNCATED
    assert kind(fenced("x = 1") + "<think>hm") is Rejection.TRUNCATED


def test_an_unclosed_block_is_truncated_even_after_a_complete_block() -> None:
    assert kind("```python\nx = 1") is Rejection.TRUNCATED
    assert kind(fenced("x = 1") + "```python\nx = 2\n``") is Rejection.TRUNCATED


def test_no_block_is_named() -> None:
    assert kind("class CoinEnv: pass") is Rejection.NO_PROGRAM
    assert kind("") is Rejection.NO_PROGRAM
    assert kind("Write ```python x = 1``` inline.") is Rejection.NO_PROGRAM


def test_longer_fences_hold_shorter_ones() -> None:
    assert extract_program(fenced('DOC = """\n```\n"""', mark="````")) == 'DOC = """\n```\n"""\n'


def test_tildes_indented_fences_windows_lines_and_info_strings_are_understood() -> None:
    assert extract_program(fenced("x = 1", mark="~~~")) == "x = 1\n"
    assert extract_program("1. Here:\n   ```python\n   if x:\n       y()\n   ```\n") == "if x:\n    y()\n"
    assert extract_program("```python\r\nx = 1\r\n```\r\n") == "x = 1\n"
    assert extract_program('```Python title="coin"\nx = 1\n```') == "x = 1\n"


PIECES = ["```python", "```", "~~~", "````py", "\n", "<think>", "</think>", "x = 1", "    ", "\r\n", "`", "text"]


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_any_reply_gives_lines_of_it_or_a_named_rejection(pieces: list[str]) -> None:
    reply = "".join(pieces)
    try:
        program = extract_program(reply)
    except ProgramRejected as rejected:
        assert rejected.kind in (Rejection.TRUNCATED, Rejection.NO_PROGRAM)
        assert rejected.reason
    else:
        lines = {line.strip() for line in reply.split("\n")}
        assert {line.strip() for line in program.split("\n")} <= lines | {""}
