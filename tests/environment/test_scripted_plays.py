from __future__ import annotations

import asyncio

import pytest

from spadework.environment.gates.plays import PlayFault, Transcript, attempt, quote, together
from spadework.environment.gates.scripted import JUNK, echo_last_line, malformed, random_agent
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, InfrastructureFault
from spadework.seeding import generator

TEXT = "You see 3 crates and 12 barrels. Type `open crate`, or say WORD."


def drawn(text: str, count: int = 400) -> set[str]:
    agent = random_agent(generator(0, "test"))
    actions = [agent(Transcript(0, text, ())) for _ in range(count)]
    return {action for action in actions if action is not None}


def test_the_random_agent_says_words_numbers_and_suggested_commands() -> None:
    said = drawn(TEXT)
    assert "open crate" in said
    assert "barrels" in said
    assert {"3", "12", "7"} <= said, "numbers between the smallest and largest are drawn too"
    assert any(action.startswith("say ") and action != "say WORD" for action in said)
    assert not any(number in said for number in ("2", "13"))


def test_the_random_agent_copes_with_any_text() -> None:
    for text in ("", "\x00", "`" * 100, "9" * 50, "🙂"):
        assert drawn(text, 20)


def test_equal_generators_draw_equal_actions() -> None:
    agents = [random_agent(generator(3, "same")) for _ in range(2)]
    assert [agents[0](Transcript(0, TEXT, ())) for _ in range(20)] == [
        agents[1](Transcript(0, TEXT, ())) for _ in range(20)
    ]


def test_junk_is_valid_text_of_many_kinds() -> None:
    assert len(set(JUNK)) == len(JUNK) >= 20
    for action in JUNK:
        action.encode()
    assert "" in JUNK
    assert "\x00" in JUNK
    assert max(map(len, JUNK)) >= 5000


def test_malformed_actions_keep_the_command_and_spoil_the_argument() -> None:
    actions = malformed(["say amber", "look", "say birch"])
    assert "say" in actions
    assert "look -1" in actions
    assert not any("amber" in action for action in actions)


def test_the_echo_of_a_last_line_skips_blank_lines() -> None:
    assert echo_last_line(Transcript(0, "One\n  two \n\n", ())) == "two"
    assert echo_last_line(Transcript(0, " \n", ())) == ""


def test_quotes_are_bounded() -> None:
    assert quote("a'b") == '"a\'b"'
    assert quote("x" * 5000) == "'" + "x" * 60 + "'… (5000 characters)"


async def fail_late_first(item: int) -> int:
    await asyncio.sleep(0.02 if item == 1 else 0.0)
    if item in (1, 3):
        raise PlayFault(EnvironmentFault(FaultKind.EXCEPTION, f"step raised {item}"), "seed 0")
    return item


def test_the_fault_that_is_reported_does_not_depend_on_timing() -> None:
    with pytest.raises(PlayFault, match="step raised 1"):
        asyncio.run(together(fail_late_first, [0, 1, 2, 3]))


def test_results_and_faults_stay_in_order() -> None:
    results = asyncio.run(attempt(fail_late_first, [0, 1, 2, 3]))
    assert [str(result) for result in results] == ["0", "step raised 1 (seed 0)", "2", "step raised 3 (seed 0)"]


def test_a_fault_of_the_host_is_no_verdict() -> None:
    async def host_fails(item: int) -> int:
        if item == 2:
            raise InfrastructureFault("no more processes")
        return await fail_late_first(item)

    with pytest.raises(InfrastructureFault):
        asyncio.run(together(host_fails, [1, 2, 3]))
