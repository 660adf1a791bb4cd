"""Steps through the sandbox against direct calls of the same programs, by CPU time per step.

`python benchmarks/sandbox.py [--programs 24] [--plays 16] [--turns 20]` prints one line per measurement. CPU time of
the host and of its workers is added up, so that the ratio is meaningful on a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

from spadework.sandbox import Limits, Program, Sandbox

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


async def play(program: Program, seed: int, turns: int) -> None:
    play, _ = await program.reset(seed)
    for action in actions(turns):
        await play.step(action)
    await play.close()


def worker_cpu_s(program: Program) -> float:
    clock_ticks = 100.0
    total = 0.0
    for pid in program.pids():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / clock_ticks
    return total


async def sandboxed_us(count: int, plays: int, turns: int) -> tuple[float, float, float, float]:
    """(ms to open a program, CPU us per step of the host, of the workers, steps per second)."""
    async with Sandbox(Limits()) as sandbox:
        started = time.perf_counter()
        programs = [await sandbox.open(SOURCE.format(number=number)) for number in range(count)]
        open_ms = (time.perf_counter() - started) / count * 1e3
        workers_before = sum(worker_cpu_s(program) for program in programs)
        host_before, wall_before = time.process_time(), time.perf_counter()
        await asyncio.gather(*(play(program, seed, turns) for program in programs for seed in range(plays)))
        steps = count * plays * turns
        wall_s = time.perf_counter() - wall_before
        host_us = (time.process_time() - host_before) / steps * 1e6
        workers_us = (sum(worker_cpu_s(program) for program in programs) - workers_before) / steps * 1e6
        return open_ms, host_us, workers_us, steps / wall_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=24)
    parser.add_argument("--plays", type=int, default=16)
    parser.add_argument("--turns", type=int, default=20)
    options = parser.parse_args()
    direct = direct_us(options.programs, options.plays, options.turns)
    open_ms, host, workers, rate = asyncio.run(sandboxed_us(options.programs, options.plays, options.turns))
    print(f"direct        {direct:7.1f} CPU us/step")
    print(f"sandbox       {host + workers:7.1f} CPU us/step (host {host:.1f}, workers {workers:.1f})")
    print(f"ratio         {(host + workers) / direct:7.1f}")
    print(f"throughput    {rate:7.0f} steps/s")
    print(f"open          {open_ms:7.1f} ms per program")


if __name__ == "__main__":
    main()
