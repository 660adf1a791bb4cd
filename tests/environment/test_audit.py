"""The audit: sound programs hold against every attack, and each kind of attack beats what it is meant for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from spadework.config import GatesConfig
from spadework.environment.audit import ActionLog, AttackKind, AuditReport, audit_program
from spadework.sandbox import Limits, Sandbox

PROGRAMS = Path(__file__).parent.parent / "programs"
SOUND = [*sorted((PROGRAMS / "sound").glob("*.py")), *sorted((PROGRAMS / "tools_sound").glob("*.py"))]
DESK = (PROGRAMS / "tools_sound" / "ticket_desk.py").read_text()
VAULT = (PROGRAMS / "sound" / "look_then_say.py").read_text()

DIGITS = """
import random


class CountEnv:
    max_turns = 4

    def reset(self, seed=None):
        self.number = random.Random(seed).randint(100, 999)
        self.turns = 0
        return "Say `look`, then `say N`.", {}

    def step(self, action):
        self.turns += 1
        late = self.turns >= self.max_turns
        number = action.removeprefix("say ")
        if action == "look":
            return f"It is {self.number}.", 0.0, False, late, {}
        if CHECK:
            won = int(number) == self.number
            return "Over.", float(won), True, False, {}
        return "Look or say a number.", 0.0, False, late, {}

    def solution(self):
        return ["look", f"say {self.number}"]
"""


def audit(
    *sources: str, logs: Sequence[ActionLog] = (), max_reply_tokens: int = 500, seeds: int = 4
) -> list[AuditReport]:
    async def run() -> list[AuditReport]:
        async with Sandbox(Limits(step_timeout_s=0.5)) as sandbox:
            config = GatesConfig(seeds=seeds, instance_seeds=20)
            return [
                await audit_program(
                    source, sandbox, config, 0, max_turns=25, max_reply_tokens=max_reply_tokens, logs=logs
                )
                for source in sources
            ]

    return asyncio.run(run())


def faulty(name: str) -> str:
    return (PROGRAMS / "faulty" / f"{name}.py").read_text()


def beaten(report: AuditReport) -> set[AttackKind]:
    return {one.kind for one in report.attacks if one.beaten}


@pytest.fixture(scope="module")
def sound_reports() -> dict[Path, AuditReport]:
    return dict(zip(SOUND, audit(*(path.read_text() for path in SOUND)), strict=True))


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.stem)
def test_sound_programs_hold(path: Path, sound_reports: dict[Path, AuditReport]) -> None:
    report = sound_reports[path]
    assert [one.reason for one in report.attacks if one.beaten] == []
    assert report.held
    for kind in AttackKind:
        assert sum(one.plays for one in report.of(kind)) > 0, kind


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("wins_on_anything", AttackKind.SCRIPTED, "an agent that says nothing earns 1.00"),
        ("one_solution_for_all", AttackKind.SCRIPTED, "repeats what wins on another seed"),
        ("echo_wins", AttackKind.ECHO, "repeats the observation earns 1.00"),
        ("evaluates_actions", AttackKind.INJECTION, "says 'vars(self)' and plays what the answers show earns 1.00"),
        ("calls_any_method", AttackKind.INJECTION, "says 'solution' and plays what the answers show earns 1.00"),
        ("answer_in_error_text", AttackKind.INJECTION, "says 'zzz' and plays what the answers show earns 1.00"),
        ("unicode_crashes", AttackKind.INJECTION, "sends odd characters makes the program fail"),
        ("recurses_over_the_action", AttackKind.INJECTION, "as long as a reply can be makes the program fail"),
        ("state_shared_between_plays", AttackKind.REPLAY, "the actions of a play do not give it again"),
        ("clock", AttackKind.REPLAY, "the actions of a play do not give it again"),
    ],
)
def test_each_kind_of_attack_beats_what_it_is_meant_for(name: str, kind: AttackKind, reason: str) -> None:
    (report,) = audit(faulty(name))
    assert not report.held
    assert kind in beaten(report)
    assert any(reason in one.reason for one in report.of(kind))


def test_names_that_an_error_text_lets_slip_are_looked_up_and_their_values_played() -> None:
    """The text names an attribute, the attribute shows the word, and the word wins: three turns."""
    slips = VAULT.replace(
        '            text = "Nothing happens."\n',
        '            text = f"VaultEnv has {sorted(vars(self))}, not {action!r}: {getattr(self, action, None)}"\n',
    )
    assert slips != VAULT
    (report,) = audit(slips)
    assert any("says 'zzz' and plays what the answers show earns" in one.reason for one in report.attacks)


def test_digits_that_are_none_and_numbers_too_long_are_found_where_a_check_forgets_them() -> None:
    loose, longer, strict = (
        DIGITS.replace("CHECK", check)
        for check in ("number.isdigit()", "number.isdecimal()", "number.isdecimal() and len(number) < 5")
    )
    first, second, third = audit(loose, longer, strict, max_reply_tokens=2000)
    assert "invalid literal for int() with base 10: '²'" in " ".join(one.reason for one in first.attacks)
    assert [one.attack for one in second.attacks if one.beaten] == ["sends actions as long as a reply can be"]
    assert third.held
    # A reply of 24 tokens cannot hold the 4301 digits that `int` refuses.
    (short,) = audit(longer, max_reply_tokens=24)
    assert short.held


def test_recorded_plays_are_replayed_and_a_forged_reward_is_seen() -> None:
    lost = ActionLog(7, ("dance", "sing"), (0.0, 0.0), False)
    forged = ActionLog(7, ("dance", "sing"), (0.0, 1.0), False)
    ended = ActionLog(7, ("dance",), (0.0,), True)
    (held,) = audit(VAULT, logs=[lost])
    assert held.held
    assert held.of(AttackKind.REPLAY)[-1].attack == "replays recorded episodes"
    (other_reward,) = audit(VAULT, logs=[lost, forged])
    assert "the rewards are [0, 0], not [0, 1]" in other_reward.of(AttackKind.REPLAY)[-1].reason
    (other_end,) = audit(VAULT, logs=[ended])
    assert "the program does not end the episode" in other_end.of(AttackKind.REPLAY)[-1].reason


def test_what_does_not_run_is_not_attacked_and_says_why() -> None:
    nothing, broken = audit(faulty("no_class"), faulty("reset_fails_on_some_seeds"))
    assert (nothing.program, nothing.attacks, nothing.held) == (None, (), False)
    assert "no class whose name ends in Env" in nothing.unusable
    assert broken.program is not None
    assert (broken.attacks, broken.held) == ((), False)
    assert "reset raised IndexError" in broken.unusable


def test_without_a_solution_the_agents_that_need_none_attack() -> None:
    (report,) = audit(faulty("no_solution"))
    assert report.held
    assert {one.kind for one in report.attacks} == set(AttackKind)
    assert not any("another seed" in one.attack for one in report.attacks)


def test_equal_seeds_give_equal_reports() -> None:
    assert audit(VAULT) == audit(VAULT)


def test_what_is_said_to_tools_stands_in_their_arguments() -> None:
    text = '"""Find the ticket of a person."""\n'
    loose = DESK.replace(text, f"{text}        if owner.isdigit():\n            owner = str(int(owner))\n")
    assert loose != DESK
    (report,) = audit(loose)
    assert [one.attack for one in report.attacks if one.beaten] == ["sends odd characters"]
    assert "invalid literal for int() with base 10: '²'" in " ".join(one.reason for one in report.attacks)


def test_a_tool_environment_that_answers_in_other_words_does_not_hold() -> None:
    (report,) = audit(DESK + "\n    def step(self, action):\n        return 'Hm.', 0.0, False, False, {}\n")
    assert not report.held
    assert any("the program sent" in one.reason for one in report.of(AttackKind.SCRIPTED))
    assert any("the program sent" in one.reason for one in report.of(AttackKind.REPLAY))
