"""Untrusted programs run here and only here.

    async with Sandbox() as sandbox, await sandbox.open(source) as program:
        play, observation = await program.reset(seed=7)
        transition = await play.step("look around")

Every call returns its value or raises EnvironmentFault (the program's doing) or InfrastructureFault (nobody's).
A `RemoteSandbox` does the same with processes of another machine, a `RaySandbox` with those of a cluster's nodes;
`open_sandbox` gives the one that a configuration asks for.
"""

from spadework.sandbox.cluster.client import RaySandbox
from spadework.sandbox.handles import ProgramInfo
from spadework.sandbox.interface import PlayHandle, ProgramHandle, ProgramHost
from spadework.sandbox.layers import Layer, LayerName
from spadework.sandbox.limits import Limits, SandboxConfig
from spadework.sandbox.opening import open_sandbox
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, InfrastructureFault, Outcome, Transition
from spadework.sandbox.play import Play
from spadework.sandbox.pool import Sandbox
from spadework.sandbox.program import Program
from spadework.sandbox.remote.client import RemoteSandbox

__all__ = [
    "EnvironmentFault",
    "FaultKind",
    "InfrastructureFault",
    "Layer",
    "LayerName",
    "Limits",
    "Outcome",
    "Play",
    "PlayHandle",
    "Program",
    "ProgramHandle",
    "ProgramHost",
    "ProgramInfo",
    "RaySandbox",
    "RemoteSandbox",
    "Sandbox",
    "SandboxConfig",
    "Transition",
    "open_sandbox",
]
