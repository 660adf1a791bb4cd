"""Every planted fault is rejected by the gate whose business it is; sound programs of many styles pass.

A file in tests/programs/faulty says in its first two lines which gate must reject it and what the reason must hold.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spadework.config import GatesConfig
from spadework.environment.fingerprint import MemoryNoveltyIndex, fingerprint
from spadework.environment.gates import GateName, GateReport, check_novel, check_program
from spadework.sandbox import Limits, Sandbox

PROGRAMS = Path(__file__).parent.parent / "programs"
FAULTY = sorted((PROGRAMS / "faulty").glob("*.py"))
SOUND = sorted((PROGRAMS / "sound").glob("*.py"))
VAULT = (PROGRAMS / "sound" / "look_then_say.py").read_text()

NOISY = (
    *("clock", "counts_all_plays", "noisy_reward", "operating_system_random", "reset_fails_on_some_seeds"),
    "state_shared_between_plays",
)
"""What these say of themselves differs from time to time."""

ORDER = [
    GateName.PARSE,
    GateName.CONTRACT,
    GateName.DETERMINISM,
    GateName.TERMINATION,
    GateName.NOT_TRIVIAL,
    GateName.SOLVABLE,
    GateName.SECRET,
]


async def check_all(sources: Sequence[str], run_seed: int, at_once: bool) -> list[GateReport]:
    async with Sandbox(Limits(step_timeout_s=0.3)) as sandbox:
        if at_once:
            return await asyncio.gather(
                *(check_program(source, sandbox, GatesConfig(), run_seed) for source in sources)
            )
        return [await check_program(source, sandbox, GatesConfig(), run_seed) for source in sources]


def check(source: str, config: GatesConfig = GatesConfig(), **options: bool | int) -> GateReport:  # noqa: B008
    async def run() -> GateReport:
        async with Sandbox(Limits()) as sandbox:
            return await check_program(source, sandbox, config, 0, **options)  # type: ignore[arg-type]

    return asyncio.run(run())


@pytest.fixture(scope="module")
def reports() -> dict[Path, GateReport]:
    paths = [*FAULTY, *SOUND]
    return dict(zip(paths, asyncio.run(check_all([path.read_text() for path in paths], 0, False)), strict=True))


def without_times(report: GateReport) -> GateReport:
    return replace(report, results=tuple(replace(result, seconds=0.0) for result in report.results))


@pytest.mark.parametrize("path", FAULTY, ids=lambda path: path.stem)
def test_planted_faults_are_rejected_by_the_right_gate_with_a_reason(
    path: Path, reports: dict[Path, GateReport]
) -> None:
    first, second = path.read_text().split("\n")[:2]
    report = reports[path]
    assert report.rejected_by == first.removeprefix("# rejected by: ")
    assert second.removeprefix("# because: ") in report.reason
    assert not report.passed
    assert [result.gate for result in report.results] == ORDER[: len(report.results)]
    assert [result.passed for result in report.results] == [True] * (len(report.results) - 1) + [False]


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.stem)
def test_sound_programs_pass_every_gate(path: Path, reports: dict[Path, GateReport]) -> None:
    report = reports[path]
    assert report.reason == ""
    assert report.passed
    assert report.rejected_by is None
    assert [result.gate for result in report.results] == ORDER
    assert report.measures["win_reward"] == 1.0


def test_there_are_enough_programs() -> None:
    assert len(FAULTY) >= 80
    assert len(SOUND) >= 20


def test_measures_tell_what_was_seen(reports: dict[Path, GateReport]) -> None:
    measures = reports[PROGRAMS / "sound" / "numpy_grid.py"].measures
    # A hundred draws of the largest of sixteen weights, nearly all of which lie in the upper two hundred.
    assert isinstance(measures["distinct_instances"], int)
    assert 40 < measures["distinct_instances"] < 100
    assert measures["solution_length"] == 5
    assert measures["longest_play"] == 12
    assert isinstance(measures["returns"], dict)
    assert measures["returns"]["says nothing"] == 0.0
    seeds = measures["seeds"]
    assert isinstance(seeds, list)
    assert len(set(map(str, seeds))) == 4


def test_adaptations_are_recorded_and_the_program_is_the_one_that_runs(reports: dict[Path, GateReport]) -> None:
    report = reports[PROGRAMS / "sound" / "wild_bare_string.py"]
    assert report.adaptations == (
        "import math",
        "import random",
        "import re",
        "from collections import defaultdict",
        "from typing import Dict",
        "reset returns a bare observation",
    )
    assert report.program is not None
    assert report.program.source.startswith("import math\nimport random\n")


def test_checking_at_once_or_with_another_sandbox_gives_the_same_reports(reports: dict[Path, GateReport]) -> None:
    paths = [path for path in [*FAULTY[::4], *SOUND[::2]] if path.stem not in NOISY]
    again = asyncio.run(check_all([path.read_text() for path in paths], 0, at_once=True))
    for path, report in zip(paths, again, strict=True):
        assert without_times(report) == without_times(reports[path]), path.stem


def test_other_run_seeds_try_other_seeds_and_agree() -> None:
    sources = [path.read_text() for path in SOUND[:4]]
    first, second = (asyncio.run(check_all(sources, run_seed, at_once=True)) for run_seed in (1, 2))
    assert all(report.passed for report in [*first, *second]), [report.reason for report in [*first, *second]]
    assert tried_seeds(first[0]) != tried_seeds(second[0])


def tried_seeds(report: GateReport) -> set[str]:
    seeds = report.measures["seeds"]
    assert isinstance(seeds, list) and seeds
    return {str(seed) for seed in seeds}


def test_programs_that_differ_in_a_word_meet_other_seeds() -> None:
    """So that what is alike by chance on the seeds of one program is not alike for its whole kind."""
    sources = [f"{SOUND[0].read_text()}\nEDITION = {edition}\n" for edition in (1, 2)]
    first, second = asyncio.run(check_all(sources, 0, at_once=True))
    assert not tried_seeds(first) & tried_seeds(second)


def test_a_coin_flip_is_trivial_and_a_choice_of_three_is_not_whatever_the_seeds() -> None:
    """Chance can tip each verdict; over several run seeds the games are still told apart."""
    coin, doors, boxes = (
        (PROGRAMS / name).read_text() for name in ("faulty/coin.py", "faulty/two_doors.py", "sound/three_boxes.py")
    )

    async def count_passes() -> list[int]:
        async with Sandbox(Limits()) as sandbox:
            return [
                sum([(await check_program(source, sandbox, GatesConfig(), seed)).passed for seed in range(1, 7)])
                for source in (coin, doors, boxes)
            ]

    coins_passed, doors_passed, boxes_passed = asyncio.run(count_passes())
    assert coins_passed + doors_passed <= 1
    assert boxes_passed >= 5


def test_keep_going_runs_every_gate() -> None:
    report = check((PROGRAMS / "faulty" / "never_ends.py").read_text(), keep_going=True)
    assert [result.gate for result in report.results] == ORDER
    assert [result.gate for result in report.results if not result.passed] == [GateName.TERMINATION]
    hopeless = check((PROGRAMS / "faulty" / "cannot_be_won.py").read_text(), keep_going=True)
    assert [result.gate for result in hopeless.results] == ORDER
    assert hopeless.rejected_by is GateName.SOLVABLE


def test_keep_going_stops_where_nothing_can_run() -> None:
    assert [result.gate for result in check("x =", keep_going=True).results] == [GateName.PARSE]
    broken = check(VAULT + "\nraise ValueError('no')\n", keep_going=True)
    assert [result.gate for result in broken.results] == [GateName.PARSE, GateName.CONTRACT]
    assert broken.reason == "loading raised ValueError: no"
    assert "raise ValueError('no')" in str(broken.results[-1].details["trace"])


def test_programs_without_solution_pass_if_none_is_required() -> None:
    source = (PROGRAMS / "faulty" / "no_solution.py").read_text()
    report = check(source, GatesConfig(require_solution=False))
    assert report.passed, report.reason
    assert report.results[-1].details == {"checked": False}


def test_the_turns_of_a_play_bound_solutions_and_undeclared_programs() -> None:
    assert check(VAULT, max_turns=2).passed
    short = check(VAULT, max_turns=1)
    assert short.reason.startswith("the solution takes 2 turns on seed")
    undeclared = VAULT.replace("    max_turns = 6\n", "").replace("self.max_turns", "9")
    assert check(undeclared, max_turns=9).passed
    late = check(undeclared, max_turns=8)
    assert late.rejected_by is GateName.TERMINATION
    assert "within 8 turns" in late.reason


def test_the_threshold_is_a_setting() -> None:
    coin = (PROGRAMS / "faulty" / "coin.py").read_text()
    assert check(coin, GatesConfig(trivial_threshold=0.9)).rejected_by is not GateName.NOT_TRIVIAL


def test_a_hang_costs_one_fault_and_leaves_the_sandbox_usable() -> None:
    hanging = (PROGRAMS / "faulty" / "hangs_on_blank.py").read_text()
    first, second = asyncio.run(check_all([hanging, VAULT], 0, at_once=True))
    assert first.rejected_by is GateName.TERMINATION
    assert first.results[-1].details["fault"] == "timeout"
    assert second.passed


def test_a_slow_program_costs_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spadework.environment.gates.check.GATE_TIMEOUT_S", 1.0)
    slow = VAULT.replace("        self.turns += 1\n", "        self.turns += 1\n        time.sleep(0.05)\n")
    report = check(slow)
    assert report.reason == "the plays of this check took longer than 1 s; `reset` and `step` must be fast"
    assert sum(result.seconds for result in report.results) < 20.0


def test_novel_refuses_the_same_class_with_renamed_variables_and_names_its_twin() -> None:
    renamed = re.sub(r"\bsecret\b", "hidden", VAULT).replace("VaultEnv", "SafeEnv").replace("WORDS", "NAMES")
    first, second = asyncio.run(check_all([VAULT, renamed], 0, at_once=True))
    assert first.program is not None
    assert second.program is not None
    assert first.program.id != second.program.id
    index = MemoryNoveltyIndex()
    assert check_novel(first.program, index, 0.95).passed
    print_ = fingerprint(first.program.source)
    index.add(first.program.id, print_.digest, print_.shingles)
    refused = check_novel(second.program, index, 0.95)
    assert not refused.passed
    assert first.program.id in refused.reason
    assert refused.details == {"nearest": first.program.id, "similarity": 1.0}


def test_novelty_is_the_last_gate_when_an_index_is_given() -> None:
    async def run() -> tuple[GateReport, GateReport]:
        index = MemoryNoveltyIndex()
        async with Sandbox(Limits()) as sandbox:
            first = await check_program(VAULT, sandbox, GatesConfig(), 0, index)
            print_ = fingerprint(VAULT)
            index.add("vault", print_.digest, print_.shingles)
            return first, await check_program(VAULT, sandbox, GatesConfig(), 0, index)

    first, second = asyncio.run(run())
    assert first.passed
    assert first.results[-1].gate is GateName.NOVEL
    assert second.rejected_by is GateName.NOVEL
