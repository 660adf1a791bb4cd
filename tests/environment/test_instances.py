"""What counts as an instance, and how many a program must have."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from spadework.config import GatesConfig
from spadework.environment.gates import GateName, GateReport, check_program
from spadework.sandbox import Sandbox

SOUND = Path(__file__).parent.parent / "programs" / "sound"
VAULT = (SOUND / "look_then_say.py").read_text()
WORDS = '["amber", "birch", "cedar", "delta", "ember", "fjord", "grape", "hazel", "ivory", "jewel"]'
OPENING = '"A locked vault.'


def check(source: str, config: GatesConfig = GatesConfig()) -> GateReport:  # noqa: B008 - frozen
    async def run() -> GateReport:
        async with Sandbox() as sandbox:
            return await check_program(source, sandbox, config, 0)

    return asyncio.run(run())


def instances(source: str, **settings: int) -> int:
    """Counted with the lowest threshold, so that few are no reason to stop."""
    report = check(source, GatesConfig(min_instances=2, **settings))
    count = report.measures["distinct_instances"]
    assert isinstance(count, int)
    return count


def of(count: int) -> str:
    """The vault with words of which ``count`` are different."""
    return VAULT.replace(WORDS, f"[f'word{{number}}' for number in range({count})]")


@pytest.mark.parametrize(("count", "passes"), [(7, False), (8, True)])
def test_the_threshold_is_the_number_of_different_instances(count: int, passes: bool) -> None:
    report = check(of(count))
    assert report.passed is passes, report.reason
    if not passes:
        assert report.rejected_by is GateName.DETERMINISM
        assert report.reason == (
            "100 different seeds give only 7 different instances (first observation and solution); have at least 8, so "
            "that remembering them does not help: draw hidden values, names, sizes or positions from larger ranges"
        )


def test_threshold_and_seeds_are_settings() -> None:
    assert check(of(5), GatesConfig(min_instances=5)).passed
    assert instances(of(5)) == 5
    # Thirty seeds cannot give more than thirty instances of a thousand.
    assert 25 < instances(of(1000), instance_seeds=30) <= 30


def test_case_and_style_of_letters_make_no_instance() -> None:
    shouting = of(5).replace(
        "        self.turns = 0\n", "        self.cry = seed % 2 if seed else 0\n        self.turns = 0\n"
    )
    shouting = shouting.replace(
        f"return {OPENING}", 'return ("A LOCKED vault!" if self.cry else "A locked vault!") + "'
    )
    assert instances(shouting) == 5


def test_a_first_observation_that_differs_makes_an_instance() -> None:
    numbered = of(5).replace("        self.turns = 0\n", "        self.day = (seed or 0) % 3\n        self.turns = 0\n")
    assert instances(numbered.replace(f"return {OPENING}", 'return f"Day {self.day}. A locked vault.')) == 15


def test_a_run_cannot_ask_for_more_instances_than_seeds() -> None:
    with pytest.raises(ValueError, match="at most gates"):
        GatesConfig(min_instances=11, instance_seeds=10)
