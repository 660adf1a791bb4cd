"""What the loop costs beyond its engine: the real loop, sandbox and store with an engine that only takes time.

`python benchmarks/loop.py time` makes the paper's iterations and prints, stage by stage, how much longer they took than
the engine needed. `memory` makes 400 small iterations and prints what this process then holds. `pool` fills a pool with
100, 1,000, 10,000 and 100,000 environments and prints what an iteration costs with each.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from filled_pools import fill, iterate_on
from processes import resident_kib
from timed_engine import Speed, TimedEngine
from timed_run import Recorder, Spent, Timed, paper_config, save_corpus, seed_rendering, timed_run
from trail_policy import TrailPolicy, Wordiness, trail_program

from spadework.config import Config
from spadework.environment.fingerprint import MAX_CANDIDATES, bands, fingerprint, minhash
from spadework.store.reader import PoolReader

POOLS = (100, 1_000, 10_000, 100_000)
REPORTS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    memory = commands.add_parser("memory")
    memory.add_argument("--iterations", type=int, default=400)
    memory.add_argument("--environments", type=int, default=3)
    memory.add_argument("--plays", type=int, default=2)
    memory.add_argument("--places", type=int, default=20)
    filled = commands.add_parser("pool")
    filled.add_argument("--largest", type=int, default=POOLS[-1])
    filled.add_argument("--family", action="store_true", help="a designer that repeats itself")
    timed = commands.add_parser("time")
    timed.add_argument("--iterations", type=int, default=2)
    timed.add_argument("--environments", type=int, default=24)
    timed.add_argument("--plays", type=int, default=16)
    timed.add_argument("--round-iterations", type=int, default=4)
    timed.add_argument("--turns", type=int, default=10)
    timed.add_argument("--reply-tokens", type=int, default=200)
    timed.add_argument("--valid", type=float, default=0.85)
    timed.add_argument("--latency", type=float, default=0.05)
    timed.add_argument("--row-speed", type=float, default=200.0)
    timed.add_argument("--total-speed", type=float, default=50_000.0)
    timed.add_argument("--train-speed", type=float, default=100_000.0)
    timed.add_argument("--faster", type=float, default=1.0, help="times all of these speeds; inf for no time at all")
    timed.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        {"time": time_loop, "memory": measure_memory, "pool": measure_pools}[arguments.command](Path(place), arguments)


def time_loop(place: Path, arguments: argparse.Namespace) -> None:
    curriculum = {
        "environments": arguments.environments,
        "plays": arguments.plays,
        "round_iterations": arguments.round_iterations,
    }
    config = paper_config(save_corpus(place / "corpus.jsonl"), iterations=arguments.iterations, curriculum=curriculum)
    faster = arguments.faster
    speed = Speed(
        latency_s=arguments.latency / faster,
        row_tokens_per_s=arguments.row_speed * faster,
        total_tokens_per_s=arguments.total_speed * faster,
        train_tokens_per_s=arguments.train_speed * faster,
        step_s=arguments.latency / faster,
    )
    policy = TrailPolicy(
        seed_rendering(), arguments.turns, words=Wordiness(agent=arguments.reply_tokens), valid=arguments.valid
    )
    profile = cProfile.Profile() if arguments.profile else None
    if profile is not None:
        profile.enable()
    timed = timed_run(place / "run", config, speed, policy)
    if profile is not None:
        profile.disable()
        print_rooms(profile)
    print_stages(timed)
    print_sizes(place / "run")


class Scales(Recorder):
    """Prints what this process holds in memory, `REPORTS` times in a run, and keeps no metrics."""

    def started(self, first_iteration: int, iterations: int) -> None:
        super().started(first_iteration, iterations)
        self.every = max(1, iterations // REPORTS)
        self.seconds = 0.0

    def iteration_ended(self, iteration: int, metrics: Mapping[str, float]) -> None:
        self.seconds += metrics["time/iteration_s"]
        if (iteration + 1) % self.every == 0:
            memory = resident_kib(os.getpid()) / 1024
            print(f"{iteration + 1:>6}{memory:>10.1f} MiB{self.seconds / self.every:>10.3f} s each", flush=True)
            self.seconds = 0.0


def measure_memory(place: Path, arguments: argparse.Namespace) -> None:
    corpus = save_corpus(place / "corpus.jsonl", words=500)
    curriculum = {"environments": arguments.environments, "plays": arguments.plays}
    config = paper_config(corpus, iterations=arguments.iterations, curriculum=curriculum)
    policy = TrailPolicy(seed_rendering(), places=arguments.places, words=Wordiness(agent=20))
    recorder = Scales(TimedEngine(policy, Speed()))
    print("iterations, resident memory, seconds")
    timed_run(place / "run", config, Speed(), policy, recorder)


def measure_pools(place: Path, arguments: argparse.Namespace) -> None:
    corpus = save_corpus(place / "corpus.jsonl", words=500)
    config = paper_config(corpus, curriculum={"plays": 4})
    policy = TrailPolicy(seed_rendering(), places=20, words=Wordiness(agent=20), valid=1.0)
    shared = bands(minhash(fingerprint(trail_program(0, 10, 20)).shingles)) if arguments.family else ()
    rounds = 0
    print(
        "environments, MB, SQLite instructions of 8 iterations, then seconds of an iteration by stage, search for alike"
    )
    for size in (one for one in POOLS if one <= arguments.largest):
        wanted = -(-size // config.curriculum.environments)
        fill(place / "run", config, range(rounds, wanted), shared)
        rounds = wanted
        copy = place / "copy"
        shutil.copytree(place / "run", copy)
        print_pool(copy, config, policy, rounds, shared)
        shutil.rmtree(copy)


def print_pool(path: Path, config: Config, policy: TrailPolicy, rounds: int, shared: tuple[int, ...]) -> None:
    megabytes = (path / "pool.sqlite").stat().st_size / 1e6
    recorder = Recorder(TimedEngine(policy, Speed()))
    asked = iterate_on(path, config, policy, recorder, rounds)
    iterations = len(asked.rows)
    stages = ", ".join(f"{name} {spent.wall / iterations:.3f}" for name, spent in recorder.stages.items())
    wanted = shared or bands(minhash(fingerprint(trail_program(0, 10, 20)).shingles))
    with PoolReader.open(path / "pool.sqlite") as pool:
        began = time.perf_counter()
        pool.alike(wanted, MAX_CANDIDATES)
        search_s = time.perf_counter() - began
    environments = rounds * config.curriculum.environments
    print(
        f"{environments:>8}{megabytes:>8.0f}{asked.instructions:>12}  {stages}, search {search_s * 1000:.1f} ms",
        flush=True,
    )


def print_stages(timed: Timed) -> None:
    print(f"{'stage':<12}{'wall s':>10}{'engine s':>10}{'beyond s':>10}{'host CPU':>10}{'sandbox CPU':>13}")
    total = sum(timed.recorder.stages.values(), Spent())
    for name, spent in [*timed.recorder.stages.items(), ("all", total)]:
        beyond = spent.wall - spent.engine
        print(
            f"{name:<12}{spent.wall:>10.2f}{spent.engine:>10.2f}{beyond:>10.2f}{spent.host_cpu:>10.2f}"
            f"{spent.sandbox_cpu:>13.2f}"
        )
    engine = timed.engine
    print(f"the script itself {engine.scripting_s:.2f} s of host CPU; {engine.needed.turns} replies")
    print(f"ratio {total.wall / total.engine:.3f}" if total.engine else "no engine time")


PARTS = {
    "environments": "SELECT count(*), sum(length(source) + length(shingles) + length(summary) + length(bands)) "
    "FROM environment",
    "attempts": "SELECT count(*), sum(length(reply) + length(reason)) FROM attempt",
    "documents": "SELECT count(*), sum(length(text)) FROM document",
    "transcripts": "SELECT count(*), sum(length(transcript)) FROM episode",
    "token ids and marks": "SELECT count(*), sum(length(tokens) + length(sampled)) FROM episode",
    "log-probabilities": "SELECT count(*), sum(length(logprobs)) FROM episode",
}


def print_sizes(run: Path) -> None:
    """Bytes of what a run keeps; the engine's own files are next to nothing here."""
    pool = run / "pool.sqlite"
    with sqlite3.connect(pool) as connection:
        for name, query in PARTS.items():
            count, size = connection.execute(query).fetchone()
            print(f"{name:<22}{count:>8}{size / 1e6:>10.2f} MB{size / count:>10.0f} bytes each")
    newest = max((run / "checkpoints").iterdir())
    checkpoint = sum(path.stat().st_size for path in newest.rglob("*") if path.is_file())
    print(f"pool {pool.stat().st_size / 1e6:.1f} MB, newest checkpoint without weights {checkpoint / 1e6:.2f} MB")


def print_rooms(profile: cProfile.Profile) -> None:
    """Seconds of this process by the room whose code ran, built-in functions under whoever called them.

    Profiling makes everything slower, small functions most: read them as shares.
    """
    rooms: Counter[str] = Counter()
    for (file, _, name), (_, _, seconds, _, callers) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if "epoll" in name:
            rooms["waiting"] += seconds
        elif file == "~" and callers:
            for (caller, _, _), (_, _, share, _) in callers.items():
                rooms[room(caller)] += share
        else:
            rooms[room(file)] += seconds
    busy = sum(rooms.values()) - rooms["waiting"]
    print("; ".join(f"{name} {seconds:.2f} s ({seconds / busy:.0%})" for name, seconds in rooms.most_common()))


def room(file: str) -> str:
    parts = Path(file).parts
    if "site-packages" in parts:
        package = parts[parts.index("site-packages") + 1]
        return "tokenising" if package in ("tokenizers", "transformers", "renderers") else package
    if "spadework" in parts:
        inside = parts[len(parts) - parts[::-1].index("spadework") :]
        return "gates" if "gates" in inside else Path(inside[0]).stem
    if "benchmarks" in parts:
        return "the benchmark itself"
    return "asyncio" if "asyncio" in parts else "standard library"


if __name__ == "__main__":
    main()
