"""Sandboxes of both kinds, so that what a user relies on is tried with each."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from spadework.sandbox import Limits, ProgramHost, RemoteSandbox, Sandbox
from spadework.sandbox.address import UnixAddress
from spadework.sandbox.remote.server import SandboxServer

Where = Literal["local", "served"]
BOTH: tuple[Where, ...] = ("local", "served")


@asynccontextmanager
async def sandbox_at(where: Where, limits: Limits = Limits(), hash_seed: int = 0) -> AsyncIterator[ProgramHost]:  # noqa: B008
    """A sandbox of this process, or one behind a Unix socket that a server in this process listens at."""
    if where == "local":
        async with Sandbox(limits, hash_seed) as sandbox:
            yield sandbox
        return
    with tempfile.TemporaryDirectory() as folder:
        address = UnixAddress(str(Path(folder) / "socket"))
        async with (
            SandboxServer(address, limits, "", lambda line: None),
            RemoteSandbox(str(address), limits, hash_seed) as served,
        ):
            yield served
