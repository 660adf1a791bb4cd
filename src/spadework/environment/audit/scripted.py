"""The agents of the gate `not-trivial`, but for those that echo."""

from __future__ import annotations

from spadework.environment.audit.attack import Attacked, AttackKind, Bench
from spadework.environment.gates.cheaters import ECHOERS, cheaters


async def scripted(bench: Bench) -> list[Attacked]:
    agents = await cheaters(bench.trial)
    return await bench.tried(
        AttackKind.SCRIPTED, {name: agent for name, agent in agents.items() if name not in ECHOERS}
    )
