from __future__ import annotations

from spadework.environment.gates.leaks import arguments, contains, fold, leaks, tokens, words

ANSWERS = [("7421",), ("55",), ("980",)]


def spans_in(*texts: str) -> bool:
    return leaks(ANSWERS, texts)


def test_arguments_are_what_differs() -> None:
    assert arguments(["say amber now", "say birch now"]) == [("amber",), ("birch",)]
    assert arguments(["enter red key", "enter blue door"]) == [("red", "key"), ("blue", "door")]
    assert arguments(["7", "12"]) == [("7",), ("12",)]


def test_equal_actions_and_parts_have_no_arguments() -> None:
    assert arguments(["look", "look"]) is None
    assert arguments(["take", "take lamp"]) is None


def test_a_fixed_phrase_before_or_after_leaks() -> None:
    assert spans_in("The code is 7421.", "Hello! The code is 55.", "Well, well: the code is 980.")
    assert spans_in("Use 7421 here", "Please use the 55 here", "Here, 980 here")
    assert spans_in("One word (7421 opens it) now", "A 55 opens it", "This 980 opens it, they say")


def test_a_fixed_position_leaks() -> None:
    assert spans_in("7421 is red, 3 blue", "55 was red, 3 green", "980 or red, 3 black")
    assert spans_in("one two 7421", "three 55", "four five six 980")


def test_a_listing_in_varying_order_does_not_leak() -> None:
    assert not spans_in("Pick from 1, 7421, 3 or 9.", "Pick from 55, 8, 2 or 4.", "Pick from 5, 6, 7 or 980.")


def test_a_missing_argument_does_not_leak() -> None:
    assert not spans_in("The code is 7421.", "The code is hidden.", "The code is 980.")


def test_a_context_that_occurs_twice_is_no_rule() -> None:
    assert not spans_in(
        "Box a: is 7421, box b: is 4, done soon", "Box a: is 9, box b: is 55, all done", "Box a: is 980, box b: is 1"
    )


def test_contains_looks_for_whole_tokens() -> None:
    assert contains(tokens("Say: Open Sesame!"), ("open", "sesame"))
    assert not contains(tokens("reopen sesame"), ("open", "sesame"))
    assert not contains(tokens("anything"), ())


def test_what_a_reader_overlooks_does_not_hide_an_answer() -> None:
    assert fold("Ａｍｂｅｒ") == fold("a\u200bm\u00adber") == fold("\U0001d400mber") == fold("ámbe\u0301r") == "amber"
    assert spans_in("The code is ７４２１.", "The code is 5\u200b5.", "The code is 980.")


def test_letters_of_another_alphabet_and_other_digits_stay_apart() -> None:
    assert fold("аmber") != "amber"
    assert fold("x²") == "x2"
    assert fold("ΩΜΈΓΑ") == fold("ωμέγα")


def test_words_are_given_as_they_are_written_but_for_case() -> None:
    assert words("Say Café, CAFÉ or 12 - quickly!") == ("say", "café", "or", "12", "quickly")
