"""What the loop costs beyond its engine: the real loop, sandbox and store with an engine that only takes time.

`python benchmarks/loop.py time` makes the paper's iterations and prints, stage by stage, how much longer they took than
the engine needed. `memory` makes 400 small iterations and prints what they take. `pool` fills pools of up to 100,000
environments and prints what an iteration then costs.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import tempfile
from pathlib import Path

from timed_engine import Speed
from timed_run import Spent, Timed, paper_config, save_corpus, seed_rendering, timed_run
from trail_policy import TrailPolicy, Wordiness

PACKAGE = "spadework"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    timed = commands.add_parser("time")
    timed.add_argument("--iterations", type=int, default=2)
    timed.add_argument("--environments", type=int, default=24)
    timed.add_argument("--plays", type=int, default=16)
    timed.add_argument("--round-iterations", type=int, default=4)
    timed.add_argument("--turns", type=int, default=10)
    timed.add_argument("--reply-tokens", type=int, default=200)
    timed.add_argument("--valid", type=float, default=0.85)
    timed.add_argument("--latency", type=float, default=0.05)
    timed.add_argument("--row-speed", type=float, default=100.0)
    timed.add_argument("--total-speed", type=float, default=50_000.0)
    timed.add_argument("--train-speed", type=float, default=100_000.0)
    timed.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        time_loop(Path(place), arguments)


def time_loop(place: Path, arguments: argparse.Namespace) -> None:
    curriculum = {
        "environments": arguments.environments,
        "plays": arguments.plays,
        "round_iterations": arguments.round_iterations,
    }
    config = paper_config(save_corpus(place / "corpus.jsonl"), iterations=arguments.iterations, curriculum=curriculum)
    speed = Speed(
        arguments.latency, arguments.row_speed, arguments.total_speed, arguments.train_speed, step_s=arguments.latency
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
        print_profile(profile)
    print_stages(timed)
    size = sum(path.stat().st_size for path in (place / "run" / "checkpoints").rglob("*") if path.is_file())
    print(f"pool {(place / 'run' / 'pool.sqlite').stat().st_size / 1e6:.1f} MB, checkpoints {size / 1e6:.1f} MB")


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


def print_profile(profile: cProfile.Profile) -> None:
    pstats.Stats(profile).sort_stats("tottime").print_stats(45)
    pstats.Stats(profile).sort_stats("cumtime").print_stats(70)


if __name__ == "__main__":
    main()
