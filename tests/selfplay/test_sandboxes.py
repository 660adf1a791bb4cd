"""A sandbox per iteration, started ahead."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from spadework.loop.sandboxes import Sandboxes
from spadework.sandbox import InfrastructureFault
from spadework.sandbox.limits import SandboxConfig

PROGRAM = """
class EchoEnv:
    def reset(self, seed=None):
        return "say something", {}

    def step(self, action):
        return action, 0.0, True, False, {}
"""


def children() -> set[str]:
    found = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    if not found.exists():
        pytest.skip("looks into /proc")
    return set(found.read_text().split())


def test_every_one_is_new_and_a_prepared_one_is_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with Sandboxes(SandboxConfig()) as sandboxes:
            async with sandboxes.fresh() as first:
                assert (await (await first.open(PROGRAM)).reset(1))[1] == "say something"
            await sandboxes.prepare()
            await sandboxes.prepare()
            assert len(children() - before) == 1
            async with sandboxes.fresh() as second:
                assert second is not first
                assert (await (await second.open(PROGRAM)).reset(1))[1] == "say something"
        assert children() <= before

    before = children()
    asyncio.run(main())


def test_a_prepared_one_that_nobody_uses_leaves_no_process() -> None:
    async def main(wait_s: float) -> None:
        async with Sandboxes(SandboxConfig()) as sandboxes:
            await sandboxes.prepare()
            await asyncio.sleep(wait_s)
        assert children() <= before

    before = children()
    for wait_s in (0.0, 1.0):  # under way, and most likely open
        asyncio.run(main(wait_s))


def test_a_host_that_cannot_be_reached_is_told_of_when_it_is_needed(tmp_path: Path) -> None:
    async def main() -> None:
        async with Sandboxes(SandboxConfig(address=f"unix:{tmp_path}/none")) as sandboxes:
            await sandboxes.prepare()
            await asyncio.sleep(0.05)
            with pytest.raises(InfrastructureFault, match="no sandbox answers"):
                async with sandboxes.fresh():
                    pass

    asyncio.run(main())
