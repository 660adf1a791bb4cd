"""What the gates cost: wall time of each on sound programs, one program at a time.

`python benchmarks/gates.py [--programs 60]` checks programs of the seed model's grammar, games and tool environments
apart, and the sound programs that the tests keep. It prints median and 95th percentile per gate, in milliseconds, and
what share of a program's time each takes. The exit status is 1 if a sound program was rejected.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from spadework.config import GatesConfig
from spadework.environment.gates import check_hint, check_program
from spadework.sandbox import Sandbox
from spadework.seedmodel.families import GAMES, TOOL_ENVIRONMENTS
from spadework.seedmodel.grammar import Family, words_needed, write_program

PROGRAMS = Path(__file__).parents[1] / "tests" / "programs"
WORDS = """
    lantern copper window garden mirror silver river orange planet basket candle thunder marble ribbon
""".split()  # noqa: SIM905

Timed = list[tuple[str, float]]
"""Gate and milliseconds, of one program."""


def grammar(families: Sequence[Family], count: int) -> list[tuple[str, str]]:
    """(source, hint) of ``count`` programs, the families in turn."""
    written = []
    for number in range(count):
        family = families[number % len(families)]
        rng = np.random.default_rng(number)
        dials = family.dials(rng)
        words = [WORDS[index] for index in rng.permutation(len(WORDS))][: words_needed([dials])]
        program = write_program([family], [dials], words, family.hints)
        written.append((program.source, program.hint))
    return written


def kept(folder: str) -> list[tuple[str, str]]:
    return [(path.read_text(encoding="utf-8"), "") for path in sorted((PROGRAMS / folder).glob("*.py"))]


async def timed(programs: Sequence[tuple[str, str]]) -> tuple[list[Timed], int]:
    """Times of every program, and how many were rejected."""
    found: list[Timed] = []
    rejected = 0
    async with Sandbox() as sandbox:
        for number, (source, hint) in enumerate(programs):
            report = await check_program(source, sandbox, GatesConfig(), run_seed=number)
            results = list(report.results)
            if report.program is not None and hint:
                results.append(await check_hint(hint, report.program, sandbox, GatesConfig(), run_seed=number))
            refused = [result for result in results if not result.passed]
            rejected += bool(refused)
            for result in refused:
                print(f"rejected by {result.gate}: {result.reason}")
            found.append([(result.gate.value, 1000 * result.seconds) for result in results])
    return found, rejected


def table(found: Sequence[Timed]) -> Mapping[str, tuple[float, float, float]]:
    """Median, 95th percentile and share of all time, per gate and in total."""
    totals = [sum(ms for _, ms in program) for program in found]
    gates = dict.fromkeys(gate for program in found for gate, _ in program)
    rows = {gate: [ms for program in found for name, ms in program if name == gate] for gate in gates}
    rows["all"] = totals
    return {
        gate: (float(np.median(times)), float(np.percentile(times, 95)), sum(times) / sum(totals))
        for gate, times in rows.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=60, help="programs of the grammar, of each kind")
    count = parser.parse_args().programs
    rejected = 0
    for title, programs in (
        ("games of the grammar", grammar(GAMES, count)),
        ("tool environments of the grammar", grammar(TOOL_ENVIRONMENTS, count)),
        ("sound games of the tests", kept("sound")),
        ("sound tool environments of the tests", kept("tools_sound")),
    ):
        found, refused = asyncio.run(timed(programs))
        rejected += refused
        print(f"{title}: {len(found)} programs, {refused} rejected")
        print(f"  {'gate':<14}{'median ms':>10}{'95 % ms':>10}{'share':>8}")
        for gate, (median, high, share) in table(found).items():
            print(f"  {gate:<14}{median:>10.1f}{high:>10.1f}{share:>8.0%}")
    sys.exit(1 if rejected else 0)


if __name__ == "__main__":
    main()
