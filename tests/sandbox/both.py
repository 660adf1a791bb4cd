"""Sandboxes of every kind, so that what a user relies on is tried with each."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from spadework.sandbox import Limits, ProgramHost, RaySandbox, RemoteSandbox, Sandbox
from spadework.sandbox.address import UnixAddress
from spadework.sandbox.remote.server import SandboxServer

Where = Literal["local", "served", "ray"]
BOTH: tuple[Where, ...] = ("local", "served")

needs_ray = (
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is missing: pip install 'spadework[ray]'"),
)
ALL = (*BOTH, pytest.param("ray", marks=needs_ray))
ACTORS = 2


@asynccontextmanager
async def sandbox_at(where: Where, limits: Limits = Limits(), hash_seed: int = 0) -> AsyncIterator[ProgramHost]:  # noqa: B008
    """A sandbox of this process; one behind a Unix socket that a server in this process listens at; or one of two Ray
    actors, which are processes of this machine.
    """
    if where == "local":
        async with Sandbox(limits, hash_seed) as sandbox:
            yield sandbox
        return
    if where == "ray":
        start_ray()
        async with RaySandbox("ray", limits, hash_seed, ACTORS) as spread:
            yield spread
        return
    with tempfile.TemporaryDirectory() as folder:
        address = UnixAddress(str(Path(folder) / "socket"))
        async with (
            SandboxServer(address, limits, "", lambda line: None),
            RemoteSandbox(str(address), limits, hash_seed) as served,
        ):
            yield served


def start_ray() -> None:
    """A Ray cluster of this machine alone, with more CPUs than there may be; it ends with the tests of the module."""
    import ray

    if not ray.is_initialized():
        # Ray's workers stand back by default, and would get no CPU on a machine that does much else.
        busy = {"worker_niceness": 0}
        ray.init(
            "local",
            num_cpus=4,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=1 << 27,
            _system_config=busy,
        )
