"""Whether two sandboxes give the same: what can be seen of programs, their faults, the verdicts of gates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spadework.config import GatesConfig
from spadework.environment.gates import GateReport, check_program
from spadework.sandbox import EnvironmentFault, Limits, ProgramHost

PROGRAMS = Path(__file__).parent.parent / "programs"

TALKATIVE = """
import random


class TalkativeEnv:
    max_turns = 9

    def reset(self, seed=None):
        self.random = random.Random(5 if seed is None else seed)
        return f"Schöne Aussicht \\N{SNOWMAN} {self.random.random()}"

    def step(self, action):
        info = {"all": [1, -(2**63), 2**64 - 1, 0.1, -0.0, None, True, {"tief": ["x", object()]}], "zahl": 10**30}
        return f"{action!a} {self.random.random()}", self.random.random(), action == "end", action == "cut", info

    def solution(self):
        return ["x" * 10, "end"]
"""

FAULTY_LIMITS = Limits(step_timeout_s=0.3)


async def everything(sandbox: ProgramHost, source: str) -> list[object]:
    """Whatever can be seen of a program in two plays."""
    seen: list[object] = []
    async with await sandbox.open(source) as program:
        for seed in (None, 3, 2**64 - 1, -(2**63)):
            play, first = await program.reset(seed)
            seen.append(first)
            for action in ("look", "", "\ud800 \U0001f600", "x" * 5000, "cut", "end"):
                seen.append(await play.step(action))
            seen.append(await play.solution())
            await play.close()
        for seed in (2**64, -(2**63) - 1):
            with pytest.raises(ValueError, match="seed"):
                await program.reset(seed)
        with pytest.raises(TypeError, match="an action is a str"):
            await play.step(7)  # type: ignore[arg-type]
        seen.append(program.info)
    return seen


async def fault_of(sandbox: ProgramHost, source: str, *actions: str) -> EnvironmentFault:
    with pytest.raises(EnvironmentFault) as caught:
        async with await sandbox.open(source) as program:
            play, _ = await program.reset(1)
            for action in actions:
                await play.step(action)
    return caught.value


def faulty(tripwire: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Programs, and actions after which each fails within `FAULTY_LIMITS`."""
    yield "class X:\n    pass", ()
    yield "x" * 400_001, ()
    yield tripwire + "# a", ("x", "die")
    yield tripwire + "# b", ("x", "hang")
    yield tripwire + "# c", ("x", "loop")
    yield tripwire.replace("self.count += 1", "self.count += 1 // (2 - self.count)"), ("x", "x")
    yield tripwire.replace('f"count {self.count}", 0.0', '"x" * 100_000, 0.0'), ("x",)


async def report(sandbox: ProgramHost, path: str) -> GateReport:
    """What the gates say of one of `PROGRAMS`, without times."""
    source = (PROGRAMS / f"{path}.py").read_text(encoding="utf-8")
    found = await check_program(source, sandbox, GatesConfig(), run_seed=0, keep_going=True)
    return replace(found, results=tuple(replace(result, seconds=0.0) for result in found.results))
