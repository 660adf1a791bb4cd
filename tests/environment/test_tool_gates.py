"""Tool environments before the gates: every planted fault is rejected by the gate whose business it is, with a reason.

A file in tests/programs/tools_faulty says in its first two lines which gate must reject it and what the reason holds.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from spadework.config import GatesConfig
from spadework.environment.gates import GateName, GateReport, check_hint, check_program
from spadework.environment.gates.results import GateResult
from spadework.environment.gates.tool_trace import written_keys
from spadework.environment.gates.tool_values import shows
from spadework.environment.program import parse_program
from spadework.sandbox import Limits, Sandbox

PROGRAMS = Path(__file__).parent.parent / "programs"
FAULTY = sorted((PROGRAMS / "tools_faulty").glob("*.py"))
SOUND = sorted((PROGRAMS / "tools_sound").glob("*.py"))
DESK = (PROGRAMS / "tools_sound" / "ticket_desk.py").read_text()
GAME = (PROGRAMS / "sound" / "look_then_say.py").read_text()

ORDER = [
    GateName.PARSE,
    GateName.CONTRACT,
    GateName.DETERMINISM,
    GateName.TERMINATION,
    GateName.NOT_TRIVIAL,
    GateName.SOLVABLE,
    GateName.SECRET,
]


async def check_all(sources: list[str], run_seed: int = 0) -> list[GateReport]:
    async with Sandbox(Limits(step_timeout_s=0.5)) as sandbox:
        return [await check_program(source, sandbox, GatesConfig(), run_seed, uses_tools=True) for source in sources]


@pytest.fixture(scope="module")
def reports() -> dict[Path, GateReport]:
    paths = [*FAULTY, *SOUND]
    return dict(zip(paths, asyncio.run(check_all([path.read_text() for path in paths])), strict=True))


@pytest.mark.parametrize("path", FAULTY, ids=lambda path: path.stem)
def test_planted_faults_are_rejected_by_the_right_gate_with_a_reason(
    path: Path, reports: dict[Path, GateReport]
) -> None:
    first, second = path.read_text().split("\n")[:2]
    report = reports[path]
    assert (report.rejected_by, report.reason) == (first.removeprefix("# rejected by: "), report.reason)
    assert second.removeprefix("# because: ") in report.reason


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.stem)
def test_sound_programs_pass_every_gate(path: Path, reports: dict[Path, GateReport]) -> None:
    report = reports[path]
    assert report.reason == ""
    assert [result.gate for result in report.results] == ORDER
    assert report.measures["win_reward"] == 1.0


def test_there_are_enough_programs() -> None:
    assert len(FAULTY) >= 25
    assert len(SOUND) >= 5


def test_other_run_seeds_agree() -> None:
    sources = [path.read_text() for path in SOUND]
    for run_seed in (1, 2):
        assert [report.reason for report in asyncio.run(check_all(sources, run_seed))] == [""] * len(sources)


def test_the_wanted_kind_of_program_is_asked_for() -> None:
    async def main() -> list[GateReport]:
        async with Sandbox() as sandbox:
            return [
                await check_program(GAME, sandbox, GatesConfig(), 0, uses_tools=True),
                await check_program(DESK, sandbox, GatesConfig(), 0, uses_tools=False),
                await check_program(GAME, sandbox, GatesConfig(), 0),
                await check_program(DESK, sandbox, GatesConfig(), 0),
            ]

    game, desk, *free = asyncio.run(main())
    assert game.rejected_by is desk.rejected_by is GateName.CONTRACT
    assert game.reason.startswith("the program is no tool environment; derive its class from ToolEnv")
    assert desk.reason.startswith("the program is a tool environment, and a game is wanted")
    assert all(report.passed for report in free), [report.reason for report in free]


def test_the_number_of_distractors_is_a_setting() -> None:
    source = (PROGRAMS / "tools_faulty" / "every_tool_is_needed.py").read_text()

    async def main() -> GateReport:
        async with Sandbox() as sandbox:
            return await check_program(source, sandbox, GatesConfig(distractors=0), 0)

    assert asyncio.run(main()).reason == ""


@pytest.mark.parametrize(
    ("code", "keys"),
    [
        ('self.state["a"] = 1', {"a"}),
        ('self.state["a"][x]["b"] += 1', {"a", "b"}),
        ('del self.state["a"]["b"]', {"a", "b"}),
        ('self.state["log"].append(1)', {"log"}),
        ('self.state.get("log").append(1)', {"log"}),
        ('self.state.update(status="x")', {"status"}),
        ('self.state.update({"status": 1})', {"status"}),
        ('self.state["orders"][x] = {"status": "new"}', {"orders", "status"}),
        ('order = self.state["orders"][x]\n        order["status"] = 1', {"orders", "status"}),
        ('log = self.state["log"]\n        log.append(1)', {"log"}),
        ('for one in self.state["items"]:\n            one["done"] = True', {"items", "done"}),
        ('self.state = {"status": 1}', {"status"}),
        ('return self.state["a"]', set()),
        ('x = {"a": 1}', set()),
    ],
)
def test_what_a_tool_writes_is_read_off_its_code(code: str, keys: set[str]) -> None:
    setup = 'def setup(self, rng):\n        self.state = {"no": 1}'
    source = f"class AEnv:\n    {setup}\n    def act(self, x):\n        {code}\n"
    assert written_keys(source) == keys


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("Order R12, paid 12.50.", "R12", True),
        ("Order R12, paid 12.50.", "r12", True),
        ("Order R12, paid 12.50.", "R1", False),
        ("Order R12, paid 12.50.", 12.5, True),
        ("Order R12, paid 12.50.", 12, False),
        ("1,200 items", 1200, True),
        ("the 5 May, please", "5 May", True),
        ("file a-7.txt", "a-7.txt", True),
        ("anything", "", True),
    ],
)
def test_a_value_stands_in_a_text_as_whole_words_or_as_an_equal_number(
    text: str, value: str | float, found: bool
) -> None:
    assert shows(text, value) is found


def hint_result(hint: str) -> GateResult:
    async def main() -> GateResult:
        async with Sandbox() as sandbox:
            return await check_hint(hint, parse_program(DESK, 60_000), sandbox, GatesConfig(), 0)

    return asyncio.run(main())


def test_a_plan_without_values_is_a_safe_hint() -> None:
    result = hint_result(
        "First look the ticket up by its owner, since its code and its fee are in the answer. Change its status, wait "
        "for the next request, then charge exactly what you read. Counting tickets does not help."
    )
    assert result.reason == ""
    assert result.details == {"words": 37, "steps": 3, "checked": True}


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        ("Set the status to closed once you found it.", "the hint holds 'closed', a value of seed"),
        ("Ask for Abara, Brandt, Castillo, Dubois, Eriksen, Fontana and Hansen.", ", a value of seed"),
        ("Look it up. " * 12, "the hint has 12 steps or sentences; at most 10 are allowed"),
        ("word " * 101, "the hint has 101 words; at most 100 are allowed"),
        (" ", "the hint is empty"),
    ],
)
def test_a_hint_with_values_or_without_end_is_refused(hint: str, reason: str) -> None:
    result = hint_result(hint)
    assert not result.passed
    assert reason in result.reason


def test_following_a_hint_to_the_letter_must_not_win() -> None:
    """A program whose calls need no value that only a result shows, so that a plan of tools is the whole solution."""
    source = DESK.replace('"closed"', '"shut"').replace('Literal["open", "shut"]', "str")
    easy = (
        source.replace('self._ticket(code)["status"] = status', 'self._ticket(self.code)["status"] = "shut"')
        .replace('self._ticket(code)["paid"] = amount', 'self._ticket(self.code)["paid"] = self.fee')
        .replace("def set_status(self, code: str, status: str)", "def finish(self)")
        .replace("def charge(self, code: str, amount: int)", "def collect(self)")
        .replace('"set_status", "arguments": {"code": self.code, "status": "shut"}', '"finish", "arguments": {}')
        .replace('"charge", "arguments": {"code": self.code, "amount": self.fee}', '"collect", "arguments": {}')
    )

    async def main() -> GateResult:
        async with Sandbox() as sandbox:
            program = parse_program(easy, 60_000)
            return await check_hint("Call finish, then collect.", program, sandbox, GatesConfig(), 0)

    result = asyncio.run(main())
    assert not result.passed
    assert "an agent that only does what the hint says to the letter wins" in result.reason
