"""A stand-in for the sandbox: programs of a few lines, with delays and faults where a test wants them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, InfrastructureFault, Transition


@dataclass
class Stage:
    """Programs count: say the secret (seed mod 9 + 1) to win. ``source`` chooses what goes wrong with them."""

    delay: Callable[[], float] = lambda: 0.0
    max_turns: int | None = 5
    uses_tools: bool = False
    opened: Counter[str] = field(default_factory=Counter)
    closed: Counter[str] = field(default_factory=Counter)
    resets: Counter[tuple[str, int]] = field(default_factory=Counter)
    open_plays: int = 0

    async def open(self, source: str) -> StagedProgram:
        self.opened[source] += 1
        await asyncio.sleep(self.delay())
        if source == "does not load":
            raise EnvironmentFault(FaultKind.LOAD, "the class cannot be constructed")
        return StagedProgram(self, source)

    @property
    def unclosed(self) -> Counter[str]:
        return self.opened - self.closed


@dataclass
class StagedProgram:
    stage: Stage
    source: str

    @property
    def info(self) -> Stage:
        return self.stage

    async def reset(self, seed: int) -> tuple[StagedPlay, str]:
        await asyncio.sleep(self.stage.delay())
        self.stage.resets[self.source, seed] += 1
        if self.source == "host fails once" and self.stage.resets[self.source, seed] == 1:
            raise InfrastructureFault("no process could be started")
        self.stage.open_plays += 1
        return StagedPlay(self, seed), "Guess a number from 1 to 9."

    async def close(self) -> None:
        self.stage.closed[self.source] += 1


@dataclass
class StagedPlay:
    program: StagedProgram
    seed: int
    turn: int = 0

    async def step(self, action: str) -> Transition:
        await asyncio.sleep(self.program.stage.delay())
        self.turn += 1
        source = self.program.source
        if source == "crashes at turn 2" and self.turn == 2:
            raise EnvironmentFault(FaultKind.EXCEPTION, "step raised KeyError: 'x'")
        secret = self.seed % 9 + 1
        if action == str(secret):
            return Transition("Yes.", 1.0, True, False, {})
        if action == "give up":
            return Transition("A pity.", -1.0, True, False, {})
        truncated = source == "truncates at turn 3" and self.turn == 3
        return Transition(f"Not {action!r}.", 0.1, False, truncated, {})

    async def close(self) -> None:
        self.program.stage.open_plays -= 1


def random_delays(seed: int) -> Callable[[], float]:
    draws = random.Random(seed)
    return lambda: draws.choice((0.0, 0.0, 0.001, 0.01))
