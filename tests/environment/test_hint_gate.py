from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from spadework.config import GatesConfig
from spadework.environment.gates import GateName, GateResult, check_hint, check_program
from spadework.environment.program import parse_program
from spadework.sandbox import Limits, Sandbox

SOUND = Path(__file__).parent.parent / "programs" / "sound"
VAULT = (SOUND / "look_then_say.py").read_text()


def judge(hint: str, source: str = VAULT) -> GateResult:
    async def run() -> GateResult:
        async with Sandbox(Limits()) as sandbox:
            return await check_hint(hint, parse_program(source, 60_000), sandbox, GatesConfig(), 0)

    return asyncio.run(run())


def secrets(source: str = VAULT) -> list[str]:
    """The secret words of the tested seeds, read off the program's own answers."""

    async def run() -> list[str]:
        async with Sandbox(Limits()) as sandbox:
            report = await check_program(source, sandbox, GatesConfig(), 0)
            seeds = report.measures["seeds"]
            assert isinstance(seeds, list)
            words = []
            async with await sandbox.open(source) as program:
                for seed in seeds:
                    play, _ = await program.reset(int(str(seed)))
                    words.append((await play.solution())[-1].split()[-1])
            return words

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("look_then_say", "Look around first. The note holds the word; say it and the vault opens."),
        ("number_search", "Guess the middle of what is left and halve it each time."),
        ("hidden_rule", "Feed two different numbers. If the differences agree it adds, otherwise it multiplies."),
        (
            "choice_in_varying_order",
            "Ask for every price before you buy, and remember the cheapest of figs, salt and rope.",
        ),
        ("maze", "Never go back through a door you came from unless the room is a dead end."),
    ],
)
def test_hints_that_say_how_to_find_out_pass(name: str, hint: str) -> None:
    result = judge(hint, (SOUND / f"{name}.py").read_text())
    assert result.passed, result.reason
    assert result.gate is GateName.HINT_SAFE


def test_a_hint_with_a_secret_word_of_a_tested_seed_is_refused() -> None:
    word = secrets()[0]
    result = judge(f"Look around; the note often reads {word.upper()}!")
    assert not result.passed
    assert result.reason == (
        f"the hint gives the solution away: it holds '{word}', an argument of a tested seed; say how to find it instead"
    )


def test_a_hint_that_is_the_answer_key_is_refused() -> None:
    word = secrets()[-1]
    result = judge(f"Simply say {word}.")
    assert f"it holds 'say {word}', an action" in result.reason


def test_an_empty_or_long_hint_is_refused() -> None:
    assert judge(" \n").reason == "the hint is empty"
    assert judge("word " * 101).reason == "the hint has 101 words; at most 100 are allowed"
    assert judge("look " * 100).passed


def test_short_arguments_are_found_by_playing_the_hint() -> None:
    source = VAULT.replace("WORDS = [", "WORDS = [str(n) for n in range(4, 8)] or [")
    digit = secrets(source)[0]
    result = judge(f"Try the number {digit} at once.", source)
    assert not result.passed
    assert f"saying 'say {digit}' from it wins on seed" in result.reason


def test_a_public_word_that_wins_everywhere_is_refused() -> None:
    source = VAULT.replace("random.Random(seed).choice(WORDS)", "WORDS[2]").replace(
        "A locked vault.", "A locked vault, with amber, birch and cedar carved on its door."
    )
    result = judge("Of the carved words cedar is the right one.", source)
    assert "saying 'say cedar' from it wins on 100% of the seeds" in result.reason
    assert judge("Of the carved words amber is a likely one.", source).passed


def test_a_program_that_fails_fails_the_hint_with_its_own_reason() -> None:
    result = judge("Look first.", VAULT + "\nraise ValueError('no')\n")
    assert not result.passed
    assert result.reason == "loading raised ValueError: no"
    assert result.details["fault"] == "load"


def test_without_a_solution_only_form_is_checked() -> None:
    result = judge("Look first.", VAULT.replace("def solution", "def answer"))
    assert result.passed
    assert result.details == {"words": 2, "checked": False}
