"""Reading a program: identity, rules and hostile sources."""

from __future__ import annotations

import hashlib
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spadework.environment.adaptation import adapt
from spadework.environment.program import (
    Program,
    ProgramRejected,
    Rejection,
    normalise_source,
    parse_program,
    program_id,
)

PLAIN = """\
class CoinEnv:
    def reset(self, seed=None):
        self.side = seed % 2
        return "Guess", {}

    def step(self, action):
        won = action == str(self.side)
        return "Done", float(won), True, False, {}
"""

DECORATED = '''\
"""A coin."""
# the coin is fair

class CoinEnv:
    """Docstring."""

    def reset(self, seed=None):
        "Starts"
        self.side = (seed % 2)   # parity


        return ("Guess", {})

    def step(self, action):
        won = action == str(self.side)
        return 'Done', float(won), True, \\
            False, {}
'''


def rejection(source: str, max_chars: int = 60_000) -> ProgramRejected:
    with pytest.raises(ProgramRejected) as caught:
        parse_program(source, max_chars)
    return caught.value


def test_comments_docstrings_blank_lines_and_layout_do_not_change_the_id() -> None:
    assert program_id(DECORATED) == program_id(PLAIN)
    assert program_id(PLAIN.replace("% 2", "% 3")) != program_id(PLAIN)


def test_the_id_is_the_sha256_of_the_normalised_source() -> None:
    program = parse_program(DECORATED, 60_000)
    expected = hashlib.sha256(normalise_source(PLAIN).encode()).hexdigest()
    assert program == Program(source=DECORATED, id=expected, class_name="CoinEnv")


def test_a_class_with_nothing_but_a_docstring_can_be_normalised() -> None:
    assert normalise_source('class A:\n    "text"\n') == "class A:\n    pass"


def test_not_python_quotes_the_line() -> None:
    error = rejection(PLAIN.replace("self.side = seed % 2", "self.side = = 2"))
    assert error.kind is Rejection.NOT_PYTHON
    assert "line 3" in error.reason
    assert "self.side = = 2" in error.reason


def test_no_class_names_what_is_there_instead() -> None:
    error = rejection(PLAIN.replace("CoinEnv", "CoinGame"))
    assert error.kind is Rejection.NO_CLASS
    assert error.reason == "the program has no class whose name ends in Env; it defines CoinGame"


def test_two_classes_are_both_named() -> None:
    error = rejection(PLAIN + PLAIN.replace("CoinEnv", "DiceEnv"))
    assert error.kind is Rejection.SEVERAL_CLASSES
    assert "CoinEnv and DiceEnv" in error.reason


def test_too_many_characters_are_counted() -> None:
    error = rejection(PLAIN, max_chars=100)
    assert error.kind is Rejection.TOO_LARGE
    assert f"{len(PLAIN)} characters; at most 100" in error.reason


def test_missing_methods_are_named() -> None:
    error = rejection("class CoinEnv:\n    def reset(self, seed=None):\n        return '', {}\n")
    assert error.kind is Rejection.NO_METHODS
    assert "no method step" in error.reason
    both = rejection("class CoinEnv(object):\n    size = 3\n")
    assert "no method reset and no method step" in both.reason


def test_methods_may_come_from_a_base_class_in_the_program_or_from_elsewhere() -> None:
    inherited = PLAIN.replace("class CoinEnv:", "class Coin:") + "\nclass CoinEnv(Coin):\n    pass\n"
    assert parse_program(inherited, 60_000).class_name == "CoinEnv"
    assert parse_program("class CoinEnv(Elsewhere):\n    pass\n", 60_000).class_name == "CoinEnv"


def test_bases_that_refer_to_each_other_end_the_search() -> None:
    assert rejection("class AEnv(B):\n    pass\nclass B(AEnv):\n    pass\n").kind is Rejection.NO_METHODS


@pytest.mark.parametrize(
    "bomb",
    [
        "x = " + "(" * 30_000,
        "x = " + "-" * 50_000 + "1",
        "x = " + "not " * 10_000 + "1",
        "x = " + "+".join(["1"] * 25_000),
        "x = a" + ".b" * 25_000,
        "x = a" + "()" * 25_000,
        "x = " + "lambda:" * 8_000 + "1",
        "x = " + "1 if 1 else " * 4_000 + "1",
        "if x: pass\n" + "elif x: pass\n" * 4_000,
        "x = " + "+".join(["1"] * 900),
        "x = 0x" + "f" * 50_000,
        "x = " + "9" * 50_000,
        "x = 1\0",
        "x = '\ud800'",
        "x = [" + "{" * 90,
    ],
    ids=lambda bomb: bomb[:12].encode("unicode_escape").decode(),
)
def test_hostile_sources_are_rejected_with_a_reason(bomb: str) -> None:
    limit = sys.getrecursionlimit()
    error = rejection(bomb + "\n" + PLAIN)
    assert error.kind in (Rejection.NOT_PYTHON, Rejection.TOO_LARGE)
    assert error.reason
    assert sys.getrecursionlimit() == limit


def test_escaped_surrogates_in_strings_have_an_id() -> None:
    assert program_id(PLAIN.replace('"Guess"', 'f"{1}\\ud800"')) != program_id(PLAIN)


def test_invalid_escapes_do_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    source, _ = adapt(PLAIN.replace('"Guess"', '"\\d"'))
    parse_program(source, 60_000)
    assert not recwarn.list


FRAGMENTS = [
    *(
        "class AEnv:",
        "\n",
        "    ",
        "def reset(self, seed=None):",
        "def step(self, a):",
        "return 1",
        "(",
        ")",
        "{",
        "f'",
    ),
    *("'", "\\", "lambda:", "import math", "math.pi", "async ", "match x:", "case [", "*", "\x00", "\ud800", "@", ":="),
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join)))
def test_any_text_is_a_program_or_a_named_rejection(text: str) -> None:
    adapted, _ = adapt(text)
    try:
        program = parse_program(adapted, 60_000)
    except ProgramRejected as rejected:
        assert rejected.reason
    else:
        assert program.class_name.endswith("Env")
        assert len(program.id) == 64
