"""Untrusted programs run here and only here.

    async with Sandbox() as sandbox, await sandbox.open(source) as program:
        play, observation = await program.reset(seed=7)
        transition = await play.step("look around")

Every call returns its value or raises EnvironmentFault (the program's doing) or InfrastructureFault (nobody's).
"""

from spadework.sandbox.layers import Layer, LayerName
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, InfrastructureFault, Outcome, Transition
from spadework.sandbox.play import Play
from spadework.sandbox.pool import Sandbox
from spadework.sandbox.program import Program, ProgramInfo

__all__ = [
    "EnvironmentFault",
    "FaultKind",
    "InfrastructureFault",
    "Layer",
    "LayerName",
    "Limits",
    "Outcome",
    "Play",
    "Program",
    "ProgramInfo",
    "Sandbox",
    "Transition",
]
