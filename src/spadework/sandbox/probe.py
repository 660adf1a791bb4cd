"""Looks at what a sandbox is worth: its layers, and whether a harmless program runs in it."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from spadework.sandbox.layers import Layer
from spadework.sandbox.limits import SandboxConfig
from spadework.sandbox.opening import open_sandbox
from spadework.sandbox.outcomes import EnvironmentFault, InfrastructureFault

STARTS = 5
SEED = 7
PROGRAM = """
import random


class ProbeEnv:
    def reset(self, seed=None, options=None):
        self.number = random.Random(seed).randint(0, 999)
        return "ready", {}

    def step(self, action):
        return f"{action} {self.number}", 1.0, True, False, {}
"""
ANSWER = "hello 331"
"""What the program answers to `hello`: 331 is `random.Random(7).randint(0, 999)`."""


@dataclass(frozen=True)
class Probe:
    """``failure`` says why the program did not run, and is empty if it did; then the times were measured."""

    layers: tuple[Layer, ...]
    failure: str
    sandbox_start_s: float | None = None
    worker_start_s: float | None = None
    """Median, from the source text to a loaded program."""


async def isolation_of(config: SandboxConfig) -> tuple[Layer, ...]:
    """Every layer, in force or not, where programs run. Raises InfrastructureFault if they are refused there."""
    async with open_sandbox(config) as sandbox:
        return sandbox.level()


async def probe(config: SandboxConfig) -> Probe:
    """Plays a program where ``config`` says that programs run, whatever isolation it requires."""
    config = config.model_copy(update={"isolation": "best-effort"})
    began = time.perf_counter()
    layers: tuple[Layer, ...] = ()
    try:
        async with open_sandbox(config) as sandbox:
            sandbox_s = time.perf_counter() - began
            layers = sandbox.level()
            worker_s = []
            for number in range(STARTS):
                began = time.perf_counter()
                async with await sandbox.open(f"{PROGRAM}# {number}\n") as program:
                    worker_s.append(time.perf_counter() - began)
                    play, _ = await program.reset(SEED)
                    answer = await play.step("hello")
                    if answer.observation != ANSWER:
                        return Probe(layers, f"it answered {answer.observation!r} instead of {ANSWER!r}")
    except (EnvironmentFault, InfrastructureFault) as fault:
        return Probe(layers, str(fault))
    return Probe(layers, "", sandbox_s, statistics.median(worker_s))
