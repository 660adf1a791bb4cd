"""Which sandbox a configuration asks for."""

from __future__ import annotations

from spadework.sandbox.address import RayAddress, parse_address
from spadework.sandbox.cluster.client import RaySandbox
from spadework.sandbox.interface import ProgramHost
from spadework.sandbox.limits import SandboxConfig
from spadework.sandbox.pool import Sandbox
from spadework.sandbox.remote.client import RemoteSandbox


def open_sandbox(config: SandboxConfig) -> ProgramHost:
    """A sandbox with the limits of ``config``, to be used with `async with`: on this machine, or at its address."""
    if not config.address:
        return Sandbox(config)
    if isinstance(parse_address(config.address), RayAddress):
        return RaySandbox(config.address, config, actors=config.actors)
    return RemoteSandbox(config.address, config)
