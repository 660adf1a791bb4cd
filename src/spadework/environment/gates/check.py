"""Run the gates on a source, in order of cost, and report.

To add a gate: a name in `GateName`, a module with an async function that takes the `Trial` and raises `GateFailed`,
and a line in `_gates`. Everything a gate returns is stored as its details.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from spadework.config import GatesConfig
from spadework.environment.adaptation import adapt
from spadework.environment.fingerprint import NoveltyIndex
from spadework.environment.gates.contract import contract
from spadework.environment.gates.determinism import determinism, other_hashes, shifted
from spadework.environment.gates.hint import hint_safe
from spadework.environment.gates.novel import check_novel
from spadework.environment.gates.plays import GateFailed, OpenProgram, PlayFault
from spadework.environment.gates.results import GateName, GateReport, GateResult, JSONValue
from spadework.environment.gates.secret import secret
from spadework.environment.gates.solvable import solvable
from spadework.environment.gates.termination import termination
from spadework.environment.gates.trial import Trial
from spadework.environment.gates.trivial import not_trivial
from spadework.environment.program import Program, ProgramRejected, parse_program
from spadework.environment.tool_calls import NotToolObservation
from spadework.sandbox import ProgramHandle, ProgramHost
from spadework.sandbox.outcomes import EnvironmentFault

DEFAULT_MAX_TURNS = 25

GATE_TIMEOUT_S = 30.0
"""Wall time of one gate. All gates of an ordinary program take a tenth of a second together."""

Details = Mapping[str, JSONValue]

_WANTED = {
    True: "the program is no tool environment; derive its class from ToolEnv of tool_environment",
    False: "the program is a tool environment, and a game is wanted; write a class with reset and step of its own",
}


async def check_program(
    source: str,
    sandbox: ProgramHost,
    config: GatesConfig,
    run_seed: int,
    novelty: NoveltyIndex | None = None,
    *,
    max_turns: int = DEFAULT_MAX_TURNS,
    keep_going: bool = False,
    uses_tools: bool | None = None,
) -> GateReport:
    """Adapt, read, open and try ``source``; stop at the first gate that says no unless ``keep_going``.

    ``max_turns`` is what a play may have (`agent.max_turns`): the limit of programs that declare none, and of every
    solution. ``novelty`` adds the gate `novel`; callers that check programs concurrently leave it out and use
    `check_novel` in a fixed order.

    ``uses_tools`` says which kind of program is wanted: `contract` rejects the other; None takes both.

    `measures` of the report: `seeds`, `distinct_instances` (on `gates.instance_seeds` seeds), `returns` (mean per
    scripted agent, as a share of the winning reward), `solution_length` (turns, the longest), `win_reward` (the
    smallest), `longest_play` (turns).

    Raises InfrastructureFault if the host fails; the same call may then succeed.
    """
    results: list[GateResult] = []
    started = time.perf_counter()
    source, adaptations = adapt(source)
    try:
        program = parse_program(source, config.max_source_chars)
    except ProgramRejected as rejected:
        details: Details = {"kind": rejected.kind.value}
        failed = GateResult(GateName.PARSE, False, rejected.reason, time.perf_counter() - started, details)
        return GateReport(None, (failed,), adaptations)
    results.append(GateResult(GateName.PARSE, True, "", time.perf_counter() - started))

    started = time.perf_counter()
    try:
        opened = await sandbox.open(program.source)
    except EnvironmentFault as fault:
        failed = _faulty(GateName.CONTRACT, fault, fault.reason, time.perf_counter() - started)
        return GateReport(program, (*results, failed), adaptations)
    async with opened:
        if uses_tools is not None and opened.info.uses_tools != uses_tools:
            failed = GateResult(GateName.CONTRACT, False, _WANTED[uses_tools], time.perf_counter() - started)
            return GateReport(program, (*results, failed), adaptations)
        trial = Trial.of(program, opened, config, run_seed, max_turns)
        async with _twin_opener(sandbox, program) as open_twin:
            for name, gate in _gates(trial, config, open_twin):
                results.append(await _judged(name, gate, started))
                started = time.perf_counter()
                if not (results[-1].passed or keep_going):
                    break
        adaptations += opened.info.adaptations
    if novelty is not None and (keep_going or results[-1].passed):
        results.append(check_novel(program, novelty, config.similarity_threshold))
    return GateReport(program, tuple(results), adaptations, _measures(results))


async def check_hint(
    hint: str,
    program: Program,
    sandbox: ProgramHost,
    config: GatesConfig,
    run_seed: int,
    *,
    max_turns: int = DEFAULT_MAX_TURNS,
) -> GateResult:
    """Whether ``hint`` helps without giving away the solutions of the seeds that `check_program` tries.

    ``program`` is the one of the report. Raises InfrastructureFault if the host fails.
    """
    started = time.perf_counter()
    try:
        opened = await sandbox.open(program.source)
    except EnvironmentFault as fault:
        return _faulty(GateName.HINT_SAFE, fault, fault.reason, time.perf_counter() - started)
    async with opened:
        trial = Trial.of(program, opened, config, run_seed, max_turns)
        return await _judged(GateName.HINT_SAFE, lambda: hint_safe(trial, hint), started)


def _gates(
    trial: Trial, config: GatesConfig, open_twin: Callable[[], Awaitable[OpenProgram]]
) -> tuple[tuple[GateName, Callable[[], Awaitable[Details]]], ...]:
    return (
        (GateName.CONTRACT, lambda: contract(trial)),
        (GateName.DETERMINISM, lambda: determinism(trial, open_twin, config.min_instances)),
        (GateName.TERMINATION, lambda: termination(trial)),
        (GateName.NOT_TRIVIAL, lambda: not_trivial(trial, config.trivial_threshold, config.random_plays)),
        (GateName.SOLVABLE, lambda: solvable(trial, config.require_solution, config.distractors)),
        (GateName.SECRET, lambda: secret(trial)),
    )


async def _judged(name: GateName, gate: Callable[[], Awaitable[Details]], started: float) -> GateResult:
    try:
        async with asyncio.timeout(GATE_TIMEOUT_S) as limit:
            details = await gate()
    except GateFailed as failed:
        return GateResult(name, False, failed.reason, time.perf_counter() - started)
    except PlayFault as fault:
        return _faulty(name, fault, fault.reason, time.perf_counter() - started)
    except NotToolObservation as error:
        return GateResult(name, False, f"the program sent {error}", time.perf_counter() - started)
    except TimeoutError:
        if not limit.expired():
            raise
        reason = f"the plays of this check took longer than {GATE_TIMEOUT_S:g} s; `reset` and `step` must be fast"
        return GateResult(name, False, reason, time.perf_counter() - started)
    return GateResult(name, True, "", time.perf_counter() - started, details)


def _faulty(name: GateName, fault: EnvironmentFault | PlayFault, reason: str, seconds: float) -> GateResult:
    details: dict[str, JSONValue] = {"fault": fault.kind.value}
    if fault.trace:
        details["trace"] = fault.trace
    return GateResult(name, False, reason, seconds, details)


@asynccontextmanager
async def _twin_opener(sandbox: ProgramHost, program: Program) -> AsyncIterator[Callable[[], Awaitable[OpenProgram]]]:
    """Opens the same program when asked, in a process of other clocks and hashes, and closes it at the end."""
    twins: list[ProgramHandle] = []

    async def open_twin() -> OpenProgram:
        try:
            twins.append(await sandbox.open(shifted(program.source), other_hashes(sandbox.hash_seed)))
        except EnvironmentFault as fault:
            raise PlayFault(fault, "in a second process") from fault
        return twins[-1]

    try:
        yield open_twin
    finally:
        for twin in twins:
            await twin.close()


def _measures(results: list[GateResult]) -> Details:
    kept = ("seeds", "distinct_instances", "returns", "solution_length", "win_reward", "longest_play")
    return {key: value for result in results for key, value in result.details.items() if key in kept}
