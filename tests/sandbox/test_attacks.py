"""Every hostile program is contained, and a well-behaved program beside it plays as if alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from both import BOTH, Where, sandbox_at

from spadework.sandbox import EnvironmentFault, FaultKind, Limits, ProgramHandle, ProgramHost

FOLDER = Path(__file__).parent.parent / "attacks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
ESCAPED = (Path("/tmp/spadework_escaped"), Path("/dev/shm/spadework_escaped"))
CANARY = Path("/tmp/spadework_canary")
SECRET = "SPADEWORK_SECRET"
AT_ONCE = 6

EXPECTED = {
    "channel_flood": FaultKind.PROTOCOL, "channel_forged": FaultKind.PROTOCOL, "channel_garbage": FaultKind.PROTOCOL,
    "channel_huge_array": FaultKind.PROTOCOL, "channel_nested": FaultKind.PROTOCOL,
    "channel_types": FaultKind.PROTOCOL, "channel_half": FaultKind.TIMEOUT, "channel_read": FaultKind.TIMEOUT,
    "exit_abort": FaultKind.EXIT, "exit_channel": FaultKind.EXIT, "exit_kill": FaultKind.EXIT,
    "exit_os": FaultKind.EXIT, "exit_segfault": FaultKind.EXIT, "exit_sys": FaultKind.EXIT,
    "hook_exit": FaultKind.EXIT, "namespace": FaultKind.EXIT, "parent_trace": FaultKind.EXIT,
    "wipe_builtins": FaultKind.EXIT, "exit_generator": FaultKind.EXCEPTION, "exit_interrupt": FaultKind.EXCEPTION,
    "recursion": FaultKind.EXCEPTION, "file_import": FaultKind.LOAD, "info_endless": FaultKind.OUTPUT,
    "info_huge": FaultKind.OUTPUT, "observation_huge": FaultKind.OUTPUT,
    "observation_surrogate": FaultKind.CONTRACT, "reward_huge": FaultKind.CONTRACT,
    "reward_infinite": FaultKind.CONTRACT, "reward_nan": FaultKind.CONTRACT, "reward_text": FaultKind.CONTRACT,
    "shape_wrong": FaultKind.CONTRACT, "types_wrong": FaultKind.CONTRACT, "memory_at_once": FaultKind.MEMORY,
    "loop_blocked": FaultKind.TIMEOUT, "loop_deaf": FaultKind.TIMEOUT, "loop_import": FaultKind.TIMEOUT,
    "loop_init": FaultKind.TIMEOUT, "loop_message": FaultKind.TIMEOUT, "loop_regex": FaultKind.TIMEOUT,
    "loop_repr": FaultKind.TIMEOUT, "loop_reset": FaultKind.TIMEOUT, "loop_step": FaultKind.TIMEOUT,
    "loop_swallow": FaultKind.TIMEOUT, "sleep": FaultKind.TIMEOUT, "stop_itself": FaultKind.TIMEOUT,
    "exit_converting": None, "patch_os": None, "patch_random": None, "print_binary": None, "print_flood": None,
    "wipe_modules": None, "loop_del": None, "descriptors": None, "secret_environ": None, "secret_heap": None,
    "proc_fork_bomb": None, "file_exists": None,
}  # fmt: skip
"""What must become of a program; None if it answers. Those not listed raise what the refused call raised."""


@dataclass(frozen=True)
class Outcome:
    kind: FaultKind | None
    text: str
    neighbour_unharmed: bool


async def transcript(program: ProgramHandle) -> list[object]:
    play, first = await program.reset(5)
    answers: list[object] = [first]
    for action in ("50", "25", "x", "75"):
        answers.append(await play.step(action))
        await asyncio.sleep(0.005)
    await play.close()
    return answers


async def attack(sandbox: ProgramHost, name: str) -> tuple[FaultKind | None, str]:
    try:
        async with await sandbox.open((FOLDER / f"{name}.py").read_text()) as program:
            play, _ = await program.reset(1)
            answer = await play.step("go")
            await play.close()
            return None, answer.observation
    except EnvironmentFault as fault:
        return fault.kind, fault.reason


async def run_all(well_behaved: str, where: Where) -> dict[str, Outcome]:
    limits = Limits(load_timeout_s=1.0, reset_timeout_s=0.5, step_timeout_s=0.4, memory_mb=300)
    outcomes: dict[str, Outcome] = {}
    async with sandbox_at(where, limits) as sandbox:
        neighbour = await sandbox.open(well_behaved)
        alone = await transcript(neighbour)
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> None:
            async with gate:
                beside = asyncio.create_task(transcript(neighbour))
                kind, text = await asyncio.wait_for(attack(sandbox, name), 20)
                outcomes[name] = Outcome(kind, text, await beside == alone)

        await asyncio.gather(*(one(name) for name in NAMES))
        assert await transcript(neighbour) == alone
    return outcomes


@pytest.fixture(scope="module", params=BOTH)
def outcomes(guess: str, request: pytest.FixtureRequest) -> Iterator[dict[str, Outcome]]:
    for path in ESCAPED:
        path.unlink(missing_ok=True)
    CANARY.write_text("alive")
    os.environ[SECRET] = SECRET
    try:
        yield asyncio.run(run_all(guess, request.param))
    finally:
        del os.environ[SECRET]
        CANARY.unlink(missing_ok=True)


@pytest.mark.parametrize("name", NAMES)
def test_attack_is_contained(name: str, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[name]
    assert not outcome.text.startswith("ESCAPED")
    assert outcome.neighbour_unharmed
    if name in EXPECTED:
        assert outcome.kind is EXPECTED[name], outcome
    elif name in ("memory_growing", "loop_in_c", "recursion_in_c"):
        assert outcome.kind in (FaultKind.MEMORY, FaultKind.TIMEOUT, FaultKind.EXIT, FaultKind.EXCEPTION)
    else:
        assert outcome.kind is FaultKind.EXCEPTION, outcome


def test_nothing_outside_has_changed(outcomes: dict[str, Outcome]) -> None:
    assert len(outcomes) == len(NAMES) > 80
    assert not any(path.exists() for path in ESCAPED)
    assert CANARY.read_text() == "alive"
