"""Which sandbox a configuration asks for."""

from __future__ import annotations

from spadework.sandbox.interface import ProgramHost
from spadework.sandbox.limits import SandboxConfig
from spadework.sandbox.pool import Sandbox
from spadework.sandbox.remote.client import RemoteSandbox


def open_sandbox(config: SandboxConfig) -> ProgramHost:
    """A sandbox with the limits of ``config``, to be used with `async with`: on this machine, or at its address."""
    return RemoteSandbox(config.address, config) if config.address else Sandbox(config)
