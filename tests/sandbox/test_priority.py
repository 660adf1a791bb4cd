"""A program that computes for long holds up nobody."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from spadework.sandbox import Program, Sandbox
from spadework.sandbox.priority import LOWEST

CAP_SYS_NICE = 23
PATIENCE_S = 60
THINKING = """
import time


class ThinkingEnv:
    def reset(self, seed=None):
        return "ready", {}

    def step(self, action):
        until = time.process_time() + 0.8
        while time.process_time() < until:
            pass
        return "done", 0.0, True, False, {}
"""


def capable() -> bool:
    """Of changing the priority of any process in either direction."""
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff"))
    return bool(effective >> CAP_SYS_NICE & 1)


pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or (os.geteuid() == 0 and not capable()),
    reason="root without CAP_SYS_NICE has no say over the processes of another user",
)


def niceness(program: Program) -> int:
    (pid,) = program.pids()
    return os.getpriority(os.PRIO_PROCESS, pid)


def test_a_long_call_gives_way_to_others_and_a_quick_one_does_not(tripwire: str) -> None:
    async def run() -> None:
        async with Sandbox() as sandbox, await sandbox.open(THINKING) as slow, await sandbox.open(tripwire) as quick:
            usual = niceness(quick)
            assert niceness(slow) == usual < LOWEST
            (thinker, _), (player, _) = await slow.reset(0), await quick.reset(0)
            thinking = asyncio.ensure_future(thinker.step("x"))
            deadline = time.monotonic() + PATIENCE_S
            while niceness(slow) != LOWEST:
                assert time.monotonic() < deadline and not thinking.done()
                await player.step("x")
            assert niceness(quick) == usual
            await thinking
            assert niceness(slow) == (usual if capable() else LOWEST)

    asyncio.run(run())
