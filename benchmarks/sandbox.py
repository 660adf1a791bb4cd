"""Steps through the sandbox against direct calls of the same programs, by CPU time per step.

`python benchmarks/sandbox.py [--programs 24] [--plays 16] [--turns 20] [--served]` prints one line per measurement.
CPU time of all processes is added up, so that the ratio is meaningful on a busy machine. With `--served` the same plays
are made through a server at a Unix socket of this machine as well.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spadework.sandbox import ProgramHandle, ProgramHost, RemoteSandbox, Sandbox

SOURCE = '''
import random


class Search{number}Env:
    """Find a hidden number between 1 and 1000; each guess is answered with a direction."""

    max_turns = 1000

    def __init__(self):
        self.target = 0
        self.turns = 0
        self.history = []

    def reset(self, seed=None, options=None):
        rng = random.Random(seed)
        self.target = rng.randint(1, 1000)
        self.turns = 0
        self.history = []
        return "I think of a number between 1 and 1000. Which one is it?", {{}}

    def step(self, action):
        self.turns += 1
        truncated = self.turns >= self.max_turns
        text = action.strip()
        if not text.isdigit():
            return "Please name a whole number.", 0.0, False, truncated, {{}}
        guess = int(text)
        self.history.append(guess)
        if guess == self.target:
            return f"Yes, it is {{guess}}. You needed {{self.turns}} guesses.", 1.0, True, False, {{}}
        direction = "higher" if guess < self.target else "lower"
        told = ", ".join(str(value) for value in self.history[-5:])
        return f"No, it is {{direction}}. Your last guesses: {{told}}.", 0.0, False, truncated, {{"turn": self.turns}}

    def solution(self):
        return [str(self.target)]
'''


def actions(turns: int) -> list[str]:
    return [str(1001 + turn) for turn in range(turns)]


def direct_us(programs: int, plays: int, turns: int) -> float:
    """CPU us per step of calling the classes in this process."""
    started = time.process_time()
    for number in range(programs):
        namespace: dict[str, type] = {}
        exec(compile(SOURCE.format(number=number), "<benchmark>", "exec"), namespace)
        for seed in range(plays):
            environment = namespace[f"Search{number}Env"]()
            environment.reset(seed=seed)
            for action in actions(turns):
                environment.step(action)
    return (time.process_time() - started) / (programs * plays * turns) * 1e6


async def play(program: ProgramHandle, seed: int, turns: int) -> None:
    play, _ = await program.reset(seed)
    for action in actions(turns):
        await play.step(action)
    await play.close()


def cpu_s(pid: int) -> float:
    """CPU time of the main thread of a process; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0


def descendants(pid: int) -> list[int]:
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*children, *(further for child in children for further in descendants(child))]


@dataclass(frozen=True)
class Cost:
    """CPU us per step of this process, of the server (0 if there is none) and of the workers."""

    open_ms: float
    client_us: float
    server_us: float
    workers_us: float
    steps_per_s: float

    @property
    def total_us(self) -> float:
        return self.client_us + self.server_us + self.workers_us


async def sandboxed(sandbox: ProgramHost, server: int | None, count: int, plays: int, turns: int) -> Cost:
    """What plays cost in ``sandbox``, whose processes descend from ``server`` or from this one."""
    async with sandbox:
        started = time.perf_counter()
        programs = [await sandbox.open(SOURCE.format(number=number)) for number in range(count)]
        open_ms = (time.perf_counter() - started) / count * 1e3

        def clocks() -> tuple[float, float, float]:
            workers = sum(map(cpu_s, descendants(os.getpid() if server is None else server)))
            return time.process_time(), 0.0 if server is None else cpu_s(server), workers

        # Opened first: a process that starts is no part of a step.
        await asyncio.gather(*(play(program, seed, 1) for program in programs for seed in range(plays)))
        before, wall_before = clocks(), time.perf_counter()
        await asyncio.gather(*(play(program, seed, turns) for program in programs for seed in range(plays)))
        wall_s = time.perf_counter() - wall_before
        steps = count * plays * turns
        client, served, workers = ((late - early) / steps * 1e6 for late, early in zip(clocks(), before, strict=True))
        return Cost(open_ms, client, served, workers, steps / wall_s)


@contextmanager
def server() -> Iterator[tuple[str, int]]:
    """(address, process id) of `spadework sandbox serve`."""
    with tempfile.TemporaryDirectory() as folder:
        start = "import sys; sys.argv[0] = 'spadework'; from spadework.cli import main; main()"
        command = [sys.executable, "-c", start, "sandbox", "serve", "--unix", f"{folder}/socket"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                next(line for line in process.stdout if line.startswith("listening"))
                yield f"unix:{folder}/socket", process.pid
            finally:
                process.send_signal(signal.SIGTERM)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=24)
    parser.add_argument("--plays", type=int, default=16)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--served", action="store_true", help="also through a server of this machine")
    options = parser.parse_args()
    size = options.programs, options.plays, options.turns
    direct = direct_us(*size)
    print(f"direct     {direct:7.1f} CPU us/step")
    show("sandbox", asyncio.run(sandboxed(Sandbox(), None, *size)), direct)
    if options.served:
        with server() as (address, pid):
            show("served", asyncio.run(sandboxed(RemoteSandbox(address), pid, *size)), direct)


def show(name: str, cost: Cost, direct_us: float) -> None:
    shares = f"client {cost.client_us:.1f}, server {cost.server_us:.1f}, workers {cost.workers_us:.1f}"
    print(f"{name:<10} {cost.total_us:7.1f} CPU us/step ({shares}), {cost.total_us / direct_us:.1f} times direct")
    print(f"{'':<10} {cost.steps_per_s:7.0f} steps/s, {cost.open_ms:.1f} ms to open a program")


if __name__ == "__main__":
    main()
