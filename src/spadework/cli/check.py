"""`spadework check`: what the gates think of programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spadework.cli.options import AsJson, Overrides

if TYPE_CHECKING:
    from spadework.config import Config
    from spadework.environment.gates import GateReport

EXAMPLES = (
    "Examples: spadework check maze.py | spadework check envs/*.py --json | spadework check maze.py --set gates.seeds=8"
)
REJECTED = 1
"""Exit status when at least one program was rejected."""


def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Source files with one program each.")],
    hint: Annotated[str | None, typer.Option(help="Also check that this hint gives no solution away.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Go on after the first gate that says no.")] = False,
    seed: Annotated[int, typer.Option(help="Names the seeds that programs are tried on.")] = 0,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Put programs through the gates that stand before every environment: in the sandbox, without any model.

    Exit status: 0 if all passed, 1 if one was rejected, 2 if one could not be checked.
    """
    import asyncio

    from spadework.cli.files import read_program
    from spadework.cli.output import print_json
    from spadework.config import Config
    from spadework.presets import change_config

    config = change_config(Config(), overrides or ())
    sources = [(path, read_program(path)) for path in files]
    reports = asyncio.run(_check(sources, hint, every, seed, config, quiet=as_json))
    if as_json:
        print_json([_as_json(path, report) for path, report in reports])
    rejected = sum(not report.passed for _, report in reports)
    if not as_json and len(reports) > 1:
        print(f"{len(reports) - rejected} of {len(reports)} programs passed")
    if rejected:
        raise typer.Exit(REJECTED)


async def _check(
    sources: list[tuple[Path, str]], hint: str | None, every: bool, seed: int, config: Config, *, quiet: bool
) -> list[tuple[Path, GateReport]]:
    from dataclasses import replace

    from spadework.environment.gates import check_hint, check_program
    from spadework.sandbox import open_sandbox

    reports = []
    turns = config.agent.max_turns
    async with open_sandbox(config.sandbox) as sandbox:
        for path, source in sources:
            report = await check_program(source, sandbox, config.gates, seed, max_turns=turns, keep_going=every)
            if hint is not None and report.program is not None and (every or report.passed):
                verdict = await check_hint(hint, report.program, sandbox, config.gates, seed, max_turns=turns)
                report = replace(report, results=(*report.results, verdict))
            reports.append((path, report))
            if not quiet:
                _print(path, report)
    return reports


def _print(path: Path, report: GateReport) -> None:
    from spadework.cli.output import console, plain

    out = console()
    name = report.program.class_name if report.program else "no program"
    verdict = "passed" if report.passed else f"rejected by {report.rejected_by}"
    out.print(plain(f"{path} ({name}): {verdict}", "bold green" if report.passed else "bold red"))
    for result in report.results:
        mark = "ok " if result.passed else "NO "
        said = f": {result.reason}" if result.reason else ""
        out.print(plain(f"  {mark} {result.gate:<12}{said}  ({result.seconds:.2f} s)", "" if result.passed else "red"))
        trace = result.details.get("trace")
        if isinstance(trace, str):
            out.print(plain("\n".join(f"        {line}" for line in trace.rstrip().splitlines())))
    if report.adaptations:
        out.print(plain(f"  adapted: {', '.join(report.adaptations)}"))
    if report.measures:
        out.print(plain(f"  measured: {', '.join(f'{key} {_short(value)}' for key, value in report.measures.items())}"))


def _short(value: object) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_short(inner)}" for key, inner in value.items()) + ")"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _as_json(path: Path, report: GateReport) -> dict[str, Any]:
    return {
        "file": str(path),
        "passed": report.passed,
        "rejected_by": report.rejected_by,
        "reason": report.reason,
        "program": None if report.program is None else {"id": report.program.id, "class": report.program.class_name},
        "gates": [
            {
                "gate": result.gate,
                "passed": result.passed,
                "reason": result.reason,
                "seconds": round(result.seconds, 4),
                "details": dict(result.details),
            }
            for result in report.results
        ],
        "adaptations": list(report.adaptations),
        "measures": dict(report.measures),
    }
