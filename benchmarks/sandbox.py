"""What the sandbox costs, against the same programs called directly and in a pool of threads.

`python benchmarks/sandbox.py [--rounds 3] [--quick] [--served]` prints a line per measurement and, at the end, each
number beside its target. The same plays are made in every mode, one mode after another in each round; ratios are
medians over the rounds. CPU time of all processes is added up, since it depends least on what else the machine does.
With `--served` the plays are made through a server at a Unix socket of this machine as well.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from measured_programs import HOSTILE, LIGHT, SLOW, TINY, WRITTEN, Workload
from processes import cpu_s, descendants, machine_cpu_s, proportional_kib

from spadework.sandbox import EnvironmentFault, ProgramHandle, ProgramHost, RemoteSandbox, Sandbox

THREADS = 128
HOSTILE_PROGRAMS = 32
STARTS = 20
IDLE_WORKERS = 60
MOVED_PLAYS, MOVED_STEPS = 64, 20

Step = Callable[[str], Awaitable[object]]
Begin = Callable[[int], Awaitable[tuple[Step, Callable[[], Awaitable[None]]]]]
"""Starts a play from a seed; gives what makes a step, and what ends the play."""


@dataclass(frozen=True)
class Setting:
    name: str
    workload: Workload
    programs: int
    at_once: int
    plays: int
    turns: int = 20

    @property
    def steps(self) -> int:
        return self.plays * self.turns


@dataclass(frozen=True)
class Cost:
    """CPU us per step of this process, of the server (0 if there is none) and of the workers.

    ``others`` is how many CPUs were busy with something else.
    """

    steps_per_s: float
    others: float
    host_us: float
    server_us: float = 0.0
    workers_us: float = 0.0

    @property
    def total_us(self) -> float:
        return self.host_us + self.server_us + self.workers_us


@dataclass(frozen=True)
class Number:
    """A measured value and what it should be."""

    name: str
    value: float | None
    at_least: float | None = None
    at_most: float | None = None
    stretch: float | None = None
    unit: str = "x"

    def __str__(self) -> str:
        bound, sign = (self.at_least, ">=") if self.at_least is not None else (self.at_most, "<=")
        value = "not measured" if self.value is None else f"{self.value:.2f} {self.unit}"
        target = "" if bound is None else f"{sign} {bound:g}"
        stretch = "" if self.stretch is None else f"{sign} {self.stretch:g}"
        verdict = "" if self.value is None or bound is None else "met" if self._meets(bound) else "MISSED"
        if self.value is not None and self.stretch is not None and self._meets(self.stretch):
            verdict = "met, stretch too"
        return f"{self.name:<62} {value:>14} {target:>8} {stretch:>8}  {verdict}"

    def _meets(self, bound: float) -> bool:
        assert self.value is not None
        return self.value >= bound if self.at_least is not None else self.value <= bound


# Throughput


@asynccontextmanager
async def called_directly(setting: Setting) -> AsyncIterator[list[Begin]]:
    """The classes in this process; plays take turns at each step, as they do beside a model."""

    async def begin(environment_class: Any, seed: int) -> tuple[Step, Callable[[], Awaitable[None]]]:
        environment = environment_class()
        environment.reset(seed=seed)

        async def step(action: str) -> object:
            await asyncio.sleep(0)
            return environment.step(action)

        return step, _nothing

    yield [partial(begin, environment_class) for environment_class in classes(setting)]


@asynccontextmanager
async def in_threads(setting: Setting) -> AsyncIterator[list[Begin]]:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(THREADS) as pool:

        async def begin(environment_class: Any, seed: int) -> tuple[Step, Callable[[], Awaitable[None]]]:
            environment = await loop.run_in_executor(pool, environment_class)
            await loop.run_in_executor(pool, partial(environment.reset, seed=seed))
            return partial(loop.run_in_executor, pool, environment.step), _nothing

        yield [partial(begin, environment_class) for environment_class in classes(setting)]


@asynccontextmanager
async def in_sandbox(host: ProgramHost, setting: Setting) -> AsyncIterator[list[Begin]]:
    async def begin(program: ProgramHandle, seed: int) -> tuple[Step, Callable[[], Awaitable[None]]]:
        play, _ = await program.reset(seed)
        return play.step, play.close

    async with host:
        programs = [await host.open(setting.workload.source(number)) for number in range(setting.programs)]
        yield [partial(begin, program) for program in programs]


async def _nothing() -> None:
    pass


def classes(setting: Setting) -> list[Any]:
    found: list[Any] = []
    for number in range(setting.programs):
        namespace: dict[str, Any] = {"__name__": "program"}
        sys.modules["program"] = type(sys)("program")  # dataclasses look their module up
        exec(compile(setting.workload.source(number), "<benchmark>", "exec"), namespace)
        found.append(next(value for name, value in namespace.items() if name.endswith("Env")))
    return found


async def cost(
    opened: Callable[[Setting], Any], setting: Setting, server: int | None = None, isolated: bool = False
) -> Cost:
    """What the plays of ``setting`` cost. ``server`` is the process whose descendants are the workers, if not this."""
    async with opened(setting) as begins:

        def clocks() -> tuple[float, float, float]:
            workers = sum(map(cpu_s, descendants(server or os.getpid()))) if isolated else 0.0
            return time.process_time(), 0.0 if server is None else cpu_s(server), workers

        gate = asyncio.Semaphore(setting.at_once)

        async def play(seed: int, turns: int) -> None:
            number = seed % len(begins)
            async with gate:
                step, end = await begins[number](seed)
                for turn in range(turns):
                    await step(setting.workload.action(number, turn))
                await end()

        # Opened first: a process that starts is no part of a step.
        await asyncio.gather(*(play(seed, 1) for seed in range(max(setting.at_once, len(begins)))))
        before, machine_before, wall_before = clocks(), machine_cpu_s(), time.perf_counter()
        await asyncio.gather(*(play(seed, setting.turns) for seed in range(setting.plays)))
        wall_s, machine_s = time.perf_counter() - wall_before, machine_cpu_s() - machine_before
        spent = [late - early for late, early in zip(clocks(), before, strict=True)]
        host, served, workers = (seconds / setting.steps * 1e6 for seconds in spent)
        return Cost(setting.steps / wall_s, max(0.0, machine_s - sum(spent)) / wall_s, host, served, workers)


def throughput(setting: Setting, rounds: int, served: bool) -> dict[str, list[Cost]]:
    """The costs of each mode, round by round."""
    print(f"\n{setting.name}: {setting.plays} plays of {setting.turns} steps, {setting.at_once} at once")
    costs: dict[str, list[Cost]] = {"direct": [], "threads": [], "sandbox": []}
    for _ in range(rounds):
        costs["direct"].append(asyncio.run(cost(called_directly, setting)))
        costs["threads"].append(asyncio.run(cost(in_threads, setting)))
        costs["sandbox"].append(asyncio.run(cost(partial(in_sandbox, Sandbox()), setting, isolated=True)))
        if served:
            with server() as (address, pid):
                opened = partial(in_sandbox, RemoteSandbox(address))
                costs.setdefault("served", []).append(asyncio.run(cost(opened, setting, pid, isolated=True)))
    for mode, each in costs.items():
        speed, cpu = ratio(costs, mode, "direct", "steps_per_s"), ratio(costs, mode, "direct", "total_us")
        shares = ", ".join(
            f"{name} {middle(each, field):.1f}"
            for name, field in (("host", "host_us"), ("server", "server_us"), ("workers", "workers_us"))
            if middle(each, field)
        )
        print(
            f"  {mode:<8} {middle(each, 'steps_per_s'):8.0f} steps/s ({speed:.2f} x direct)"
            f"  {middle(each, 'total_us'):7.1f} CPU us/step ({cpu:.2f} x direct; {shares})"
            f"  {middle(each, 'others'):.1f} CPUs busy with others",
            flush=True,
        )
    return costs


def middle(costs: list[Cost], field: str) -> float:
    return statistics.median(getattr(cost, field) for cost in costs)


def ratio(costs: dict[str, list[Cost]], mode: str, other: str, field: str) -> float:
    pairs = zip(costs[mode], costs[other], strict=True)
    return statistics.median(getattr(one, field) / getattr(two, field) for one, two in pairs)


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


# Processes


async def opening_ms() -> tuple[float, float]:
    """(a bare interpreter started and ended, a program opened), medians of runs that alternate."""
    bare: list[float] = []
    opened: list[float] = []
    async with Sandbox() as sandbox:
        for number in range(STARTS):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
            bare.append(time.perf_counter() - began)
            began = time.perf_counter()
            program = await sandbox.open(TINY.format(number=number))
            opened.append(time.perf_counter() - began)
            await program.close()
    return statistics.median(bare) * 1e3, statistics.median(opened) * 1e3


async def idle_mb() -> float | None:
    """Proportional memory of a worker that waits, in MB; None if this user may not see it."""
    async with Sandbox() as sandbox:
        programs = [await sandbox.open(TINY.format(number=number)) for number in range(IDLE_WORKERS)]
        found = [proportional_kib(pid) for program in programs for pid in program.pids()]
        known = [kib for kib in found if kib is not None]
        return statistics.mean(known) * 1024 / 1e6 if known else None


async def latencies_ms(seconds: float, hostile: int) -> tuple[float, float]:
    """(p50, p99) of the steps of 64 healthy plays, beside so many programs that hang at every step."""
    async with Sandbox() as sandbox:
        programs = [await sandbox.open(WRITTEN.source(number)) for number in range(3)]
        enemies = [await sandbox.open(HOSTILE.format(number=number)) for number in range(hostile)]
        seen: list[float] = []
        over = asyncio.Event()

        async def attack(program: ProgramHandle) -> None:
            while not over.is_set():
                play, _ = await program.reset(0)
                try:
                    await play.step("x")
                except EnvironmentFault:
                    await play.close()

        async def play(seed: int, counts: bool) -> None:
            number = seed % len(programs)
            playing, _ = await programs[number].reset(seed)
            turn = 0
            while not over.is_set():
                began = time.perf_counter()
                await playing.step(WRITTEN.action(number, turn))
                if counts:
                    seen.append(time.perf_counter() - began)
                turn += 1
                if turn % 20 == 0:
                    await playing.close()
                    playing, _ = await programs[number].reset(seed)
            await playing.close()

        attacks = [asyncio.ensure_future(attack(program)) for program in enemies]
        await asyncio.sleep(1.0 if hostile else 0.0)
        plays = [asyncio.ensure_future(play(seed, True)) for seed in range(64)]
        await asyncio.sleep(seconds)
        over.set()
        await asyncio.gather(*plays)
        for task in attacks:
            task.cancel()
        await asyncio.gather(*attacks, return_exceptions=True)
    cuts = statistics.quantiles(seen, n=100)
    return cuts[49] * 1e3, cuts[98] * 1e3


async def moving_ms() -> tuple[float, float, int]:
    """(a step of every play, the same when one of them ends the process, plays lost beside the guilty one)."""
    async with Sandbox() as sandbox, await sandbox.open(TINY.format(number=0)) as program:
        plays = [(await program.reset(seed))[0] for seed in range(MOVED_PLAYS)]
        for _ in range(MOVED_STEPS):
            began = time.perf_counter()
            await asyncio.gather(*(play.step("x") for play in plays))
            usual = time.perf_counter() - began
        actions = ["die", *["x"] * (MOVED_PLAYS - 1)]
        began = time.perf_counter()
        answers = await asyncio.gather(
            *(play.step(action) for play, action in zip(plays, actions, strict=True)), return_exceptions=True
        )
        moved = time.perf_counter() - began
        lost = sum(isinstance(answer, BaseException) for answer in answers) - 1
        return usual * 1e3, moved * 1e3, lost


# The table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the plays, for a first look")
    parser.add_argument("--served", action="store_true", help="also through a server of this machine")
    options = parser.parse_args()
    share = 10 if options.quick else 1
    few = Setting("64 at once, 3 programs", WRITTEN, 3, 64, 2560 // share)
    many = Setting("2,000 at once, 3 programs", WRITTEN, 3, 2000 // share, 4000 // share)
    various = Setting("2,000 at once, 300 programs", WRITTEN, 300 // share, 2000 // share, 4000 // share)
    light = Setting("64 at once, 3 programs that do next to nothing", LIGHT, 3, 64, 2560 // share)
    slow = Setting("64 at once, 3 programs of milliseconds", SLOW, 3, 64, 128 // share)
    costs = {
        setting.name: throughput(setting, options.rounds, options.served)
        for setting in (few, many, various, light, slow)
    }

    def against(setting: Setting, other: str, field: str = "steps_per_s") -> float:
        return ratio(costs[setting.name], "sandbox", other, field)

    bare_ms, opened_ms = asyncio.run(opening_ms())
    print(f"\nbare interpreter {bare_ms:.1f} ms, program opened {opened_ms:.1f} ms")
    alone, beside = (asyncio.run(latencies_ms(8.0 / share, count)) for count in (0, HOSTILE_PROGRAMS))
    print(f"step of 64 plays alone: p50 {alone[0]:.1f} ms, p99 {alone[1]:.1f} ms", end="; ")
    print(f"beside {HOSTILE_PROGRAMS} hostile programs: p50 {beside[0]:.1f} ms, p99 {beside[1]:.1f} ms")
    usual_ms, moved_ms, lost = asyncio.run(moving_ms())
    print(f"a step of {MOVED_PLAYS} plays of one process: {usual_ms:.1f} ms", end="; ")
    print(f"when one of them ends it after {MOVED_STEPS} steps: {moved_ms:.1f} ms, {lost} others lost")
    host_us = max(middle(costs[setting.name]["sandbox"], "host_us") for setting in (few, many, various))
    numbers = [
        Number("steps/s against direct calls, 64 at once", against(few, "direct"), at_least=0.8, stretch=1.2),
        Number("steps/s against direct calls, 2,000 at once", against(many, "direct"), at_least=1.0, stretch=1.4),
        Number("steps/s against threads, 64 at once", against(few, "threads"), at_least=1.7, stretch=2.5),
        Number("steps/s against threads, 2,000 at once", against(many, "threads"), at_least=2.5, stretch=4),
        *(
            Number(
                f"CPU against direct calls, {setting.name}", against(setting, "direct", "total_us"), None, most, best
            )
            for setting, most, best in ((few, 2.0, 1.3), (many, 2.0, 1.3), (various, 2.5, 1.8))
        ),
        Number("CPU of the host per step, the worst of these", host_us, at_most=50, stretch=25, unit="us"),
        Number("a program opened against `python -I -S -c pass`", opened_ms / bare_ms, at_most=1.0, stretch=0.3),
        Number("proportional memory of an idle worker", asyncio.run(idle_mb()), at_most=5, stretch=3, unit="MB"),
        Number("p99 of a step beside 32 hostile programs, against alone", beside[1] / alone[1], None, 3, 1.5),
        Number("innocent plays lost with a process", float(lost), at_most=0, unit=""),
        Number(f"{MOVED_PLAYS - 1} plays moved to a fresh process", moved_ms - usual_ms, unit="ms"),
    ]
    print("\n" + "\n".join(map(str, numbers)))


if __name__ == "__main__":
    main()
