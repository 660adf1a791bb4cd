"""Steps through Ray actors against steps of the local sandbox, by CPU time per step.

`python benchmarks/sandbox_ray.py [--actors 2] [--programs 8] [--plays 8] [--turns 20]` starts Ray on this machine and
prints one line per sandbox. Every turn is made by all plays at once, as a cohort of episodes does, and CPU time is
added up over all threads of all processes: of this one, of the actors, of the programs' processes, and of Ray itself.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path

import ray

from spadework.sandbox import PlayHandle, ProgramHost, RaySandbox, Sandbox

SOURCE = '''
import random


class Search{number}Env:
    """Find a hidden number between 1 and 1000; each guess is answered with a direction."""

    def reset(self, seed=None, options=None):
        self.target = random.Random(seed).randint(1, 1000)
        self.history = []
        return "I think of a number between 1 and 1000. Which one is it?", {{}}

    def step(self, action):
        guess = int(action)
        self.history.append(guess)
        direction = "higher" if guess < self.target else "lower"
        told = ", ".join(str(value) for value in self.history[-5:])
        return f"No, it is {{direction}}. Your last guesses: {{told}}.", 0.0, False, False, {{}}
'''
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Clocks:
    """CPU seconds so far of this process, of actors, of programs' processes and of the rest of Ray; and wall time."""

    client: float
    actors: float
    workers: float
    ray: float
    wall: float

    @classmethod
    def now(cls) -> Clocks:
        actors, workers, rest = 0.0, 0.0, 0.0
        for pid, inside in descendants(os.getpid(), False):
            if command(pid).startswith("ray::SandboxActor"):
                actors += cpu_s(pid)
            elif inside or "json.loads" in command(pid):
                workers += cpu_s(pid)
            else:
                rest += cpu_s(pid)
        return cls(time.process_time(), actors, workers, rest, time.perf_counter())


def descendants(pid: int, inside: bool) -> list[tuple[int, bool]]:
    """(process, whether it is below an actor)."""
    found = []
    for path in Path("/proc").glob(f"{pid}/task/*/children"):
        for child in map(int, path.read_text().split()):
            below = inside or command(pid).startswith("ray::SandboxActor")
            found += [(child, below), *descendants(child, below)]
    return found


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def cpu_s(pid: int) -> float:
    """Of all threads; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


async def measure(name: str, sandbox: ProgramHost, programs: int, plays: int, turns: int) -> None:
    began = time.perf_counter()
    async with sandbox:
        started_s = time.perf_counter() - began
        opened = [await sandbox.open(SOURCE.format(number=number)) for number in range(programs)]
        begun = [(await program.reset(seed))[0] for program in opened for seed in range(plays)]
        await turn(begun, "0")
        before = Clocks.now()
        for number in range(turns):
            await turn(begun, str(1001 + number))
        after = Clocks.now()
    steps = programs * plays * turns

    def per_step_us(part: str) -> float:
        return (getattr(after, part) - getattr(before, part)) / steps * 1e6

    shares = {part: per_step_us(part) for part in ("client", "actors", "workers", "ray")}
    told = ", ".join(f"{part} {share:.1f}" for part, share in shares.items())
    print(f"{name:<8} {sum(shares.values()):7.1f} CPU us/step ({told})")
    turn_ms = per_step_us("wall") * programs * plays / 1e3
    print(f"{'':<8} {turn_ms:.2f} ms a turn of all {programs * plays} plays; started in {started_s:.1f} s", flush=True)


async def turn(plays: list[PlayHandle], action: str) -> None:
    await asyncio.gather(*(play.step(action) for play in plays))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--programs", type=int, default=8)
    parser.add_argument("--plays", type=int, default=8)
    parser.add_argument("--turns", type=int, default=20)
    options = parser.parse_args()
    size = options.programs, options.plays, options.turns
    asyncio.run(measure("local", Sandbox(), *size))
    ray.init(
        "local", num_cpus=options.actors, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
    )
    asyncio.run(measure("ray", RaySandbox("ray", actors=options.actors), *size))


if __name__ == "__main__":
    main()
