"""`determinism`: an episode depends on its seed and actions alone, and seeds give many different instances.

The same plays are made again in another process, whose clocks run an hour and a bit ahead and whose hashes of texts
differ, and with them the order of sets. Observations, rewards and ends must agree; `info` may differ, since nothing is
made of it. Two texts keep their order by chance under half of all hashes; the more there are, the surer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from spadework.environment.adaptation import prepend
from spadework.environment.gates.instances import count_instances
from spadework.environment.gates.plays import (
    GateFailed,
    OpenProgram,
    PlayFault,
    Transcript,
    play_out,
    quote,
    scripted,
    together,
)
from spadework.environment.gates.results import JSONValue
from spadework.environment.gates.trial import Trial, require

SHIFTED_WORLD = (
    "def _shift():\n"
    "    import builtins, datetime, time\n"
    "    if hasattr(builtins, '_shifted'): return\n"
    "    builtins._shifted = True\n"
    "    for name, unit in [('time', 1), ('time_ns', 10**9), ('monotonic', 1), ('monotonic_ns', 10**9), "
    "('perf_counter', 1), ('perf_counter_ns', 10**9)]:\n"
    "        setattr(time, name, lambda real=getattr(time, name), unit=unit: real() + 3671 * unit)\n"
    "    class Later(datetime.datetime):\n"
    "        @classmethod\n"
    "        def now(cls, tz=None): return cls.fromtimestamp(time.time(), tz)\n"
    "        @classmethod\n"
    "        def utcnow(cls): return cls.utcfromtimestamp(time.time())\n"
    "        @classmethod\n"
    "        def today(cls): return cls.now()\n"
    "    datetime.datetime = Later\n"
    "_shift()\n"
    "del _shift"
)
"""Runs before the twin's own first statement. The sandbox gives each play a module, but one process one `time`."""


def shifted(source: str) -> str:
    """The program in a world of other clocks. Unchanged if nothing can stand before its first statement."""
    return prepend(source, SHIFTED_WORLD)


def other_hashes(hash_seed: int) -> int:
    """A hash seed that is not ``hash_seed``."""
    return (hash_seed + 1) % 2**32


async def determinism(
    trial: Trial, open_twin: Callable[[], Awaitable[OpenProgram]], min_instances: int
) -> dict[str, JSONValue]:
    """Raises GateFailed or PlayFault. ``open_twin`` opens `shifted(source)` in a process with `other_hashes`."""
    played = await trial.try_random_plays(trial.seeds, 1)
    if await trial.knows_solutions(trial.seeds):
        played += await trial.try_solved(trial.seeds)
    originals = [play for play in played if isinstance(play, Transcript)]
    await _compare_with_twin(trial, originals, await open_twin())
    distinct = await count_instances(trial, min_instances)
    seeds = len(trial.survey)
    require(distinct > 1, f"{seeds} different seeds give the same instance; draw the instance from random.Random(seed)")
    require(
        distinct >= min_instances or not await trial.knows_solutions(trial.seeds),
        f"{seeds} different seeds give only {distinct} different instances (first observation and solution); "
        f"have at least {min_instances}, so that remembering them does not help: draw hidden values, names, sizes or "
        "positions from larger ranges",
    )
    return {"distinct_instances": distinct}


async def _compare_with_twin(trial: Trial, originals: list[Transcript], twin: OpenProgram) -> None:
    async def again(original: Transcript) -> Transcript:
        return await play_out(twin, original.seed, scripted(original.actions), trial.turn_limit)

    try:
        repeats = await together(again, originals[::-1])
    except PlayFault as fault:
        raise GateFailed(f"an episode that ran before fails in another process: {fault.reason}") from fault
    for original, repeat in zip(originals, reversed(repeats), strict=True):
        if difference := first_difference(original, repeat):
            raise GateFailed(
                f"the same seed and actions give different episodes in two processes: seed {original.seed}, "
                f"{difference}; draw everything from random.Random(seed), not from clocks, hashes, the order of sets "
                "or global state"
            )


def first_difference(original: Transcript, repeat: Transcript) -> str:
    """Where two plays part, in words; empty if they are equal."""
    if original.first_observation != repeat.first_observation:
        return f"the first observation {_apart(original.first_observation, repeat.first_observation)}"
    for turn, (left, right) in enumerate(zip(original.steps, repeat.steps, strict=False), 1):
        where = f"turn {turn} after action {quote(left.action)}"
        if left.observation != right.observation:
            return f"{where}: the observation {_apart(left.observation, right.observation)}"
        if left != right:
            return f"{where}: reward {left.reward:g} or {right.reward:g}, ended {left.ends} or {right.ends}"
    return ""


def _apart(left: str, right: str) -> str:
    start = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    start = max(0, start - 20)
    return f"reads {quote(left[start:])} or {quote(right[start:])}"
