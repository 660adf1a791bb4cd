"""`spadework audit`: attacks on programs of files, folders and runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spadework.cli.options import AsJson, Overrides

if TYPE_CHECKING:
    from spadework.config import Config
    from spadework.environment.audit import ActionLog, Attacked, AttackKind, AuditReport
    from spadework.sandbox import ProgramHost
    from spadework.store.records import EpisodeRecord

EXAMPLES = (
    "Examples: spadework audit maze.py | spadework audit envs --json | spadework audit runs/tour --round 2 --seeds 16"
)
BEATEN = 1
"""Exit status when at least one program was beaten or could not be run."""
AT_ONCE = 4
"""Programs under attack at the same time."""


@dataclass(frozen=True)
class Subject:
    """A program to attack. ``logs`` gives recorded plays of it, at most so many."""

    name: str
    source: str
    config: Config
    logs: Callable[[int], Sequence[ActionLog]]


def audit(
    targets: Annotated[
        list[Path],
        typer.Argument(metavar="PATH|RUN…", help="Program files, folders with .py files, or directories of runs."),
    ],
    seeds: Annotated[int, typer.Option(help="Instances that each attack is tried on at first.", min=2)] = 8,
    episodes: Annotated[
        int, typer.Option(help="Recorded episodes of each environment of a run that are replayed.", min=0)
    ] = 8,
    round_: Annotated[
        int | None,
        typer.Option("--round", help="Only the environments of this round of a run.", show_default="all rounds"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Names the instances.")] = 0,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Attack programs as an agent that wants the reward without solving anything would, and replay their plays.

    Of a run, every environment in its pool is attacked, within the limits of the run's own settings. Exit status: 0 if
    all programs held, 1 if one was beaten or does not run, 2 if one could not be attacked.
    """
    import asyncio

    from spadework.cli.output import print_json

    settings = [*(overrides or ()), f"gates.seeds={seeds}"]
    subjects = [subject for target in targets for subject in _subjects(target, settings, round_)]
    reports = asyncio.run(_audit(subjects, seed, episodes))
    if as_json:
        print_json(_as_json(reports))
    else:
        _print(reports)
    if not all(report.held for _, report in reports):
        raise typer.Exit(BEATEN)


def _subjects(target: Path, settings: list[str], round_: int | None) -> list[Subject]:
    from spadework.cli.errors import Refused
    from spadework.cli.files import read_program
    from spadework.config import Config
    from spadework.presets import change_config

    if (target / "run.json").exists():
        return _environments(target, settings, round_)
    files = sorted(target.rglob("*.py")) if target.is_dir() else [target]
    if not files:
        raise Refused(f"{target} is neither a run nor holds .py files; name a program, a folder of programs or a run")
    config = change_config(Config(), settings)
    return [Subject(str(file), read_program(file), config, lambda count: ()) for file in files]


def _environments(run: Path, settings: list[str], round_: int | None) -> list[Subject]:
    from spadework.cli.errors import Refused
    from spadework.presets import change_config
    from spadework.store.reader import PoolReader
    from spadework.store.run_directory import RunDirectory

    directory = RunDirectory.open_readonly(run)
    config = change_config(directory.config, settings)
    with PoolReader.open(directory.pool) as pool:
        last = pool.last_round()
        if last is None:
            raise Refused(f"the run {run} has no environments yet; wait for its first iteration")
        if round_ is not None and not 0 <= round_ <= last:
            raise Refused(f"the run {run} has no round {round_}; it has the rounds 0 to {last}")
        rounds = range(last + 1) if round_ is None else [round_]
        found = [environment for number in rounds for environment in pool.environments(number)]

    def logs(environment_id: str) -> Callable[[int], Sequence[ActionLog]]:
        def read(count: int) -> Sequence[ActionLog]:
            with PoolReader.open(directory.pool) as pool:
                listed = [one.row for one in pool.episodes(environment_id) if one.value is not None]
                spread = listed[:: -(-len(listed) // count) or 1] if count else []
                return [_log(pool.episode(row)) for row in spread]

        return read

    return [Subject(f"{one.class_name} {one.id[:12]}", one.source, config, logs(one.id)) for one in found]


def _log(record: EpisodeRecord) -> ActionLog:
    """The turns in which the program was stepped: not that of a reply that was cut, which ended the episode."""
    from spadework.environment.audit import ActionLog
    from spadework.roles.episode import EpisodeEnd
    from spadework.sandbox.outcomes import Outcome

    episode = record.episode
    turns = episode.turns[:-1] if episode.outcome is Outcome.AGENT_FAULT else episode.turns
    return ActionLog(
        episode.seed,
        tuple(turn.action for turn in turns),
        tuple(turn.reward for turn in turns),
        episode.end is EpisodeEnd.TERMINATED,
    )


async def _audit(subjects: Sequence[Subject], seed: int, episodes: int) -> list[tuple[Subject, AuditReport]]:
    """Reports in the order of ``subjects``; a terminal shows how many are done."""
    from itertools import groupby

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from spadework.sandbox import open_sandbox

    watching = Console(stderr=True)
    columns = (TextColumn("attacking"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    reports: list[AuditReport] = []
    with Progress(*columns, console=watching, transient=True, disable=not watching.is_terminal) as progress:
        task = progress.add_task("", total=len(subjects))
        for limits, alike in groupby(subjects, lambda subject: subject.config.sandbox):
            async with open_sandbox(limits) as sandbox:
                reports += await _attack(list(alike), sandbox, seed, episodes, lambda: progress.advance(task))
    return list(zip(subjects, reports, strict=True))


async def _attack(
    subjects: Sequence[Subject], sandbox: ProgramHost, seed: int, episodes: int, done: Callable[[], None]
) -> list[AuditReport]:
    import asyncio

    from spadework.environment.audit import audit_program

    room = asyncio.Semaphore(AT_ONCE)

    async def attack(subject: Subject) -> AuditReport:
        async with room:
            agent = subject.config.agent
            report = await audit_program(
                subject.source,
                sandbox,
                subject.config.gates,
                seed,
                max_turns=agent.max_turns,
                max_reply_tokens=agent.max_reply_tokens,
                logs=subject.logs(episodes),
            )
            done()
            return report

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(attack(subject)) for subject in subjects]
    return [task.result() for task in tasks]


def _print(reports: Sequence[tuple[Subject, AuditReport]]) -> None:
    from spadework.cli.output import console, plain, table
    from spadework.environment.audit import AttackKind

    out = console()
    rows = [
        (subject.name, *(_cell(report.of(kind)) for kind in AttackKind), _verdict(report))
        for subject, report in reports
    ]
    out.print(table(("program", *(f">{kind}" for kind in AttackKind), "verdict"), rows))
    kinds = [
        (kind, *(found[key] for key in ("programs", "attacks", "plays", "beaten")))
        for kind, found in _by_kind(reports).items()
    ]
    out.print(table(("kind", ">programs", ">attacks", ">plays", ">programs beaten"), kinds))
    for subject, report in reports:
        reasons = [f"{one.kind}: {one.reason}" for one in report.attacks if one.beaten]
        for reason in [report.unusable, *reasons] if report.unusable else reasons:
            out.print(plain(f"{subject.name}: {reason}", "red"))
    print(f"{sum(report.held for _, report in reports)} of {len(reports)} programs held")


def _verdict(report: AuditReport) -> str:
    if report.unusable:
        return "DOES NOT RUN"
    return "held" if report.held else "BEATEN"


def _cell(attacks: Sequence[Attacked]) -> str:
    """The most that an attack earned; how many plays were replayed."""
    beaten = "BEATEN " if any(one.beaten for one in attacks) else ""
    earned = [one.mean for one in attacks if one.mean is not None]
    if earned:
        return f"{beaten}{max(earned):.2f}"
    return beaten.strip() or (f"{sum(one.plays for one in attacks)} equal" if attacks else "-")


def _by_kind(reports: Sequence[tuple[Subject, AuditReport]]) -> dict[AttackKind, dict[str, Any]]:
    from spadework.environment.audit import AttackKind

    found: dict[AttackKind, dict[str, Any]] = {}
    for kind in AttackKind:
        attacked = [report.of(kind) for _, report in reports if report.of(kind)]
        every = [one for attacks in attacked for one in attacks]
        earned = [one.mean for one in every if one.mean is not None]
        found[kind] = {
            "programs": len(attacked),
            "attacks": len(every),
            "plays": sum(one.plays for one in every),
            "beaten": sum(any(one.beaten for one in attacks) for attacks in attacked),
            "most_earned": max(earned, default=None),
        }
    return found


def _as_json(reports: Sequence[tuple[Subject, AuditReport]]) -> dict[str, Any]:
    return {
        "programs": [
            {
                "name": subject.name,
                "program": None
                if report.program is None
                else {"id": report.program.id, "class": report.program.class_name},
                "held": report.held,
                "unusable": report.unusable,
                "attacks": [
                    {
                        "kind": one.kind,
                        "attack": one.attack,
                        "plays": one.plays,
                        "mean": None if one.mean is None else round(one.mean, 4),
                        "beaten": one.beaten,
                        "reason": one.reason,
                    }
                    for one in report.attacks
                ],
            }
            for subject, report in reports
        ],
        "kinds": {kind.value: found for kind, found in _by_kind(reports).items()},
    }
