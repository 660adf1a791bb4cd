"""Audit one program: every kind of attack, on seeds that no gate tries.

To add a kind: a name in `AttackKind`, a module with an async function that takes the `Bench` and gives one `Attacked`
for each attack that was possible, and a line in `ATTACKS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from spadework.config import GatesConfig
from spadework.environment.adaptation import adapt
from spadework.environment.audit.attack import Attacked, AttackKind, Bench
from spadework.environment.audit.echo import echo
from spadework.environment.audit.injection import injection
from spadework.environment.audit.replay import ActionLog, replay, replay_logs
from spadework.environment.audit.scripted import scripted
from spadework.environment.gates.determinism import shifted
from spadework.environment.gates.plays import OpenProgram, PlayFault
from spadework.environment.gates.trial import Trial
from spadework.environment.program import Program, ProgramRejected, parse_program
from spadework.environment.tool_calls import NotToolObservation
from spadework.sandbox import ProgramHost
from spadework.sandbox.outcomes import EnvironmentFault
from spadework.seeding import derive_seed

KIND_TIMEOUT_S = 120.0
"""Wall time of all attacks of one kind."""
CHARS_PER_TOKEN = 4

ATTACKS: Mapping[AttackKind, Callable[[Bench], Awaitable[list[Attacked]]]] = {
    AttackKind.SCRIPTED: scripted,
    AttackKind.ECHO: echo,
    AttackKind.INJECTION: injection,
    AttackKind.REPLAY: replay,
}


@dataclass(frozen=True)
class AuditReport:
    """``program`` is the one that ran, adaptations included; None if ``unusable`` says why none could."""

    program: Program | None
    attacks: tuple[Attacked, ...]
    unusable: str = ""

    @property
    def held(self) -> bool:
        """Whether the program runs and no attack beat it."""
        return self.program is not None and not self.unusable and not any(one.beaten for one in self.attacks)

    def of(self, kind: AttackKind) -> tuple[Attacked, ...]:
        return tuple(one for one in self.attacks if one.kind is kind)


async def audit_program(
    source: str,
    sandbox: ProgramHost,
    config: GatesConfig,
    seed: int,
    *,
    max_turns: int,
    max_reply_tokens: int,
    logs: Sequence[ActionLog] = (),
) -> AuditReport:
    """Attack ``source`` on `gates.seeds` seeds that ``seed`` names, and more where that leaves doubts.

    ``max_turns`` and ``max_reply_tokens`` are what an agent has. ``logs`` are recorded plays to be replayed. Raises
    InfrastructureFault if the host fails.
    """
    adapted, _ = adapt(source)
    try:
        program = parse_program(adapted, config.max_source_chars)
    except ProgramRejected as rejected:
        return AuditReport(None, (), rejected.reason)
    async with AsyncExitStack() as opened:

        async def open_again() -> OpenProgram:
            return await opened.enter_async_context(await sandbox.open(shifted(program.source)))

        try:
            handle = await opened.enter_async_context(await sandbox.open(program.source))
            trial = Trial.of(program, handle, config, derive_seed(seed, "audit"), max_turns)
            await trial.survey_openings()
        except (EnvironmentFault, PlayFault) as fault:
            return AuditReport(program, (), fault.reason)
        bench = Bench(
            trial, open_again, config.trivial_threshold, config.random_plays, max_reply_tokens * CHARS_PER_TOKEN
        )
        attacks: list[Attacked] = []
        for kind, attack in ATTACKS.items():
            attacks += await _in_time(kind, attack(bench))
        if logs:
            attacks += await _in_time(AttackKind.REPLAY, replay_logs(bench, logs))
    return AuditReport(program, tuple(attacks))


async def _in_time(kind: AttackKind, attacking: Awaitable[list[Attacked]]) -> list[Attacked]:
    try:
        async with asyncio.timeout(KIND_TIMEOUT_S) as limit:
            return await attacking
    except EnvironmentFault as fault:
        return [Attacked(kind, "opens the program again", 0, None, f"the program fails: {fault.reason}")]
    except NotToolObservation as error:
        return [Attacked(kind, "reads what is shown", 0, None, f"the program sent {error}")]
    except TimeoutError:
        if not limit.expired():
            raise
        reason = f"the plays of these attacks took longer than {KIND_TIMEOUT_S:g} s; `reset` and `step` must be fast"
        return [Attacked(kind, "takes its time", 0, None, reason)]
