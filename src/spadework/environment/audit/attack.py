"""One attack: an agent that knows nothing of the instance tries to win, or to make the program fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from spadework.environment.gates.cheaters import Agent
from spadework.environment.gates.plays import OpenProgram, PlayFault
from spadework.environment.gates.trial import Trial
from spadework.environment.gates.trivial import score
from spadework.environment.tool_calls import NotToolObservation


class AttackKind(StrEnum):
    """What an attack goes for."""

    SCRIPTED = "scripted"
    """The agents of the gate `not-trivial`: silence, constants, chance, what wins elsewhere, answers that fit many."""
    ECHO = "echo"
    """Says what it was told."""
    INJECTION = "injection"
    """Asks for the program's state, sends what nobody expects, and plays the names that answers let slip."""
    REPLAY = "replay"
    """Nobody plays: the actions of a play alone must give its rewards again."""


@dataclass(frozen=True)
class Attacked:
    """How one attack went. ``reason`` is one sentence for the program's author, empty if the program held."""

    kind: AttackKind
    attack: str
    """What the agent does, as in \"an agent that says nothing\"."""
    plays: int
    mean: float | None
    """Mean terminal reward as a share of the winning one; None where nothing was earned: a replay, a failed program."""
    reason: str = ""

    @property
    def beaten(self) -> bool:
        return bool(self.reason)


@dataclass(frozen=True)
class Bench:
    """A program under attack."""

    trial: Trial
    open_again: Callable[[], Awaitable[OpenProgram]]
    """Opens the program in a process of its own, with other clocks and hashes."""
    threshold: float
    random_plays: int
    longest_action: int
    """Characters that an agent's reply can have."""

    async def tried(self, kind: AttackKind, agents: Mapping[str, Agent]) -> list[Attacked]:
        """Each agent in turn, so that one that makes the program fail does not hide what the others find."""
        return [
            attacked for name, agent in agents.items() if (attacked := await self._tried(kind, name, agent)) is not None
        ]

    async def _tried(self, kind: AttackKind, name: str, agent: Agent) -> Attacked | None:
        try:
            scored = await score(self.trial, name, agent, self.threshold, self.random_plays)
        except PlayFault as fault:
            return Attacked(kind, name, 0, None, f"an agent that {name} makes the program fail: {fault.reason}")
        except NotToolObservation as error:
            return Attacked(kind, name, 0, None, f"to an agent that {name} the program sent {error}")
        if scored is None:
            return None
        reason = (
            f"an agent that {name} earns {scored.mean:.2f} of the winning reward on average over {scored.plays} plays; "
            f"it must stay under {self.threshold:g}"
        )
        return Attacked(kind, name, scored.plays, scored.mean, reason if scored.beats else "")
