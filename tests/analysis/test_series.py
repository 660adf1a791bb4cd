"""Curves from lines of metrics, and text that cannot become markup."""

import math

import pytest

from spadework.analysis import writing
from spadework.analysis.figures import run_plots
from spadework.analysis.plots import mismatch
from spadework.analysis.series import Curve, curve, stack
from spadework.store.glossary import METRICS


def test_a_curve_has_only_what_was_measured_and_the_standard_error_to_either_side() -> None:
    rows = [
        {"iteration": 0, "environments/regret": 0.5, "environments/regret_stderr": 0.125},
        {"iteration": 1},
        {"iteration": 2, "environments/regret": None},
        {"iteration": 3, "environments/regret": 0.25},
    ]
    assert curve(rows, "environments/regret", "r") == Curve("r", (0, 3), (0.5, 0.25), (0.375, 0.25), (0.625, 0.25))


def test_an_interval_that_was_logged_is_taken_as_it_is() -> None:
    row = {"iteration": -1, "heldout/in_family": 0.5, "heldout/in_family_low": 0.25, "heldout/in_family_high": 0.625}
    assert curve([row], "heldout/in_family", "in", offset=1) == Curve("in", (0,), (0.5,), (0.25,), (0.625,))


def test_a_stack_leaves_out_parts_that_are_always_zero_and_fills_absent_ones() -> None:
    rows = [{"iteration": 0, "a": 1, "c": 0}, {"iteration": 1}, {"iteration": 2, "b": 2.0}]
    assert stack(rows, {"a": "A", "b": "B", "c": "C"}) == (Curve("A", (0, 2), (1, 0)), Curve("B", (0, 2), (0, 2)))


def test_a_curve_of_unequal_lengths_is_refused() -> None:
    with pytest.raises(ValueError, match="2 places but 1 values of y"):
        Curve("x", (0, 1), (0.5,))


@pytest.mark.parametrize("iterations", [1, 40])
def test_every_figure_can_be_drawn_of_few_and_of_many_iterations(iterations: int) -> None:
    rows = [{"iteration": number, **dict.fromkeys(METRICS, 0.5)} for number in range(iterations)]
    for plot in run_plots(rows):
        assert plot.draw is not None, plot.name
        assert plot.draw().axes[0].has_data(), plot.name


def test_a_mismatch_of_exactly_zero_is_said_in_words() -> None:
    figure = mismatch(Curve("mean", (0.0,), (0.0,)), Curve("largest", (0.0,), (0.0,)))
    assert "exactly zero throughout" in [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", r"a\|b"),
        ("<b>", r"\<b\>"),
        ("[x](y)\n# z", r"\[x\](y) \# z"),
        ("- item", r"\- item"),
        ("12. item", r"12\. item"),
        ("\ud800\x00", "\ufffd\ufffd"),
    ],
)
def test_a_line_of_markdown_reads_as_it_was_written(text: str, shown: str) -> None:
    assert writing.inline(text) == shown


def test_a_fence_is_longer_than_any_in_its_text() -> None:
    assert writing.fenced("a ```` b", "python") == "`````python\na ```` b\n`````"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "—"), (3, "3"), (3.0, "3"), (0.12345, "0.123"), (0.00012, "1.20e-04"), (0.0, "0"), (math.nan, "nan")],
)
def test_numbers_are_short(value: float | None, shown: str) -> None:
    assert writing.number(value) == shown
