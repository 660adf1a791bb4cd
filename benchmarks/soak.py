"""A million steps through the sandbox, with one program in twenty that hangs, explodes in memory or dies.

`python benchmarks/soak.py [--steps 1000000]` prints a line at each tenth and, at the end, what was left behind. The
exit status is 1 unless no process and no descriptor stayed, memory was flat, every innocent play was answered as if
alone, and every guilty one failed by its own doing.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from processes import descendants, resident_kib

from spadework.sandbox import EnvironmentFault, FaultKind, Limits, Sandbox

SOURCE = """
import os
import random
import signal
import sys


class SoakEnv:
    \"\"\"Adds up what it is told. In its guilty play, the sixth step does harm.\"\"\"

    harm = {harm!r}

    def reset(self, seed=None):
        self.guilty = seed == {guilty}
        self.total = random.Random(seed).randint(0, 99)
        self.steps = 0
        return f"start at {{self.total}}", {{}}

    def step(self, action):
        self.steps += 1
        if self.guilty and self.steps == 6:
            getattr(self, self.harm)()
        self.total += int(action)
        return f"total {{self.total}}", float(self.total), False, False, {{"steps": self.steps}}

    def loop(self):
        while True:
            pass

    def deaf(self):
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        self.loop()

    def sleep(self):
        import time
        time.sleep(3600)

    def explode(self):
        kept = []
        while True:
            kept.append(bytearray(1 << 20))

    def leave(self):
        os._exit(3)

    def crash(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def babble(self):
        os.write(3, b"\\xff" * 64)
"""
HARMS = {
    "loop": {FaultKind.TIMEOUT},
    "deaf": {FaultKind.TIMEOUT},
    "sleep": {FaultKind.TIMEOUT},
    "explode": {FaultKind.MEMORY, FaultKind.TIMEOUT},  # a slow machine hands out memory slowly
    "leave": {FaultKind.EXIT},
    "crash": {FaultKind.EXIT},
    "babble": {FaultKind.PROTOCOL},
}
"""What a guilty play does, and how it may fail."""

HOSTILE_SHARE = 0.05
PLAYS, TURNS = 7, 20
OPEN_AT_ONCE = 12
LIMITS = Limits(step_timeout_s=0.4, memory_mb=96)
GROWTH_SHARE, GROWTH_KIB = 0.05, 1024
"""How much more memory the end may show than the first tenth: the noise of an allocator."""


@dataclass
class Tally:
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """What was answered otherwise than it should."""


@dataclass(frozen=True)
class Footprint:
    """Of this process and of the sandbox's template, which lives as long."""

    host_kib: int
    template_kib: int
    descriptors: int
    processes: int

    def __str__(self) -> str:
        return (
            f"host {self.host_kib / 1024:.1f} MiB, template {self.template_kib / 1024:.1f} MiB, "
            f"{self.descriptors} descriptors, {self.processes} processes"
        )


def footprint() -> Footprint:
    children = descendants(os.getpid())
    return Footprint(
        resident_kib(os.getpid()),
        max((resident_kib(pid) for pid in children), default=0),
        len(list(Path("/proc/self/fd").iterdir())),
        len(children),
    )


def harm_of(number: int) -> str:
    """What the program of that number does to itself; nothing for most."""
    if number % round(1 / HOSTILE_SHARE):
        return ""
    return list(HARMS)[number // round(1 / HOSTILE_SHARE) % len(HARMS)]


async def soak_program(sandbox: Sandbox, number: int, tally: Tally) -> None:
    """All plays of one program, at once."""
    harm = harm_of(number)
    guilty = number % PLAYS if harm else -1
    source = SOURCE.format(harm=harm, guilty=guilty) + f"# {number}\n"
    async with await sandbox.open(source) as program:

        async def play(seed: int) -> None:
            total = random.Random(seed).randint(0, 99)
            playing, observation = await program.reset(seed)
            if observation != f"start at {total}":
                tally.wrong.append(f"program {number}, seed {seed}: {observation!r}")
            for turn in range(TURNS):
                total += turn
                answer = await playing.step(str(turn))
                tally.steps += 1
                if answer.observation != f"total {total}":
                    tally.wrong.append(f"program {number}, seed {seed}, turn {turn}: {answer.observation!r}")
            await playing.close()

        for seed, result in enumerate(
            await asyncio.gather(*(play(seed) for seed in range(PLAYS)), return_exceptions=True)
        ):
            wanted = HARMS[harm] if seed == guilty else set()
            if isinstance(result, EnvironmentFault) and result.kind in wanted:
                tally.faults[harm] += 1
            elif result is not None or wanted:
                tally.wrong.append(f"program {number} ({harm or 'innocent'}), seed {seed}: {result!r}")


async def soak(steps: int) -> list[str]:
    """What went wrong, in sentences; empty if nothing did."""
    programs = math.ceil(steps / (PLAYS * TURNS - HOSTILE_SHARE * TURNS))  # a guilty play ends early
    tally = Tally()
    started = time.monotonic()
    async with Sandbox(LIMITS) as sandbox:
        empty = footprint()
        marks: list[Footprint] = []
        for tenth in range(10):
            numbers = range(programs * tenth // 10, programs * (tenth + 1) // 10)
            gate = asyncio.Semaphore(OPEN_AT_ONCE)

            async def one(number: int, gate: asyncio.Semaphore = gate) -> None:
                async with gate:
                    await soak_program(sandbox, number, tally)

            await asyncio.gather(*(one(number) for number in numbers))
            marks.append(footprint())
            print(f"{tally.steps:>9} steps  {time.monotonic() - started:6.0f} s  {marks[-1]}", flush=True)
    print("faults: " + ", ".join(f"{harm} {count}" for harm, count in sorted(tally.faults.items())))
    return [*tally.wrong[:20], *growth(empty, marks)]


def growth(empty: Footprint, marks: list[Footprint]) -> list[str]:
    """What was there at a mark, when no program was open, that should not have been."""
    first, last = marks[0], marks[-1]
    wrong: list[str] = []
    for name, early, late in (
        ("this process", first.host_kib, last.host_kib),
        ("the template", first.template_kib, last.template_kib),
    ):
        print(f"memory of {name}: {early / 1024:.2f} MiB at the first tenth, {late / 1024:.2f} MiB at the end")
        if late > early * (1 + GROWTH_SHARE) + GROWTH_KIB:
            wrong.append(f"{name} has grown from {early} to {late} KiB")
    if any(mark.descriptors != empty.descriptors for mark in marks):
        wrong.append(f"descriptors leaked: {empty.descriptors} at the start, {last.descriptors} at the end")
    if any(mark.processes != empty.processes for mark in marks):
        wrong.append(f"processes leaked: {empty.processes} at the start, {last.processes} at the end")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    steps: int = parser.parse_args().steps
    descriptors = footprint().descriptors
    wrong = asyncio.run(soak(steps))
    after = footprint()
    if after.processes:
        wrong.append(f"{after.processes} processes outlive the sandbox")
    if after.descriptors != descriptors:
        wrong.append(f"{after.descriptors - descriptors} descriptors outlive the sandbox")
    print(f"left behind: {after.processes} processes, {after.descriptors - descriptors} descriptors")
    print("\n".join(f"WRONG: {sentence}" for sentence in wrong) or "nothing leaked and nothing was lost")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
