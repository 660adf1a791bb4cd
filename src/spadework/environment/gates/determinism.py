"""`determinism`: an episode depends on its seed and actions alone, and it does depend on its seed.

The same plays are made again in another process, whose clocks run an hour and a bit ahead and whose hashes of texts
differ, and with them the order of sets. Observations, rewards and ends must agree; `info` may differ, since nothing is
made of it. Two texts keep their order by chance under half of all hashes; the more there are, the surer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from spadework.environment.adaptation import prepend
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


async def determinism(trial: Trial, open_twin: Callable[[], Awaitable[OpenProgram]]) -> dict[str, JSONValue]:
    """Raises GateFailed or PlayFault. ``open_twin`` opens `shifted(source)` in a process with `other_hashes`."""
    played = await trial.try_random_plays(trial.seeds, 1)
    if await trial.knows_solutions(trial.seeds):
        played += await trial.try_solved(trial.seeds)
    originals = [play for play in played if isinstance(play, Transcript)]
    await _compare_with_twin(trial, originals, await open_twin())
    seeds = trial.seeds
    distinct = await _distinct_instances(trial, seeds)
    if distinct == 1:
        seeds = (*trial.seeds, *trial.confirming_seeds)
        distinct = await _distinct_instances(trial, seeds)
    require(
        distinct > 1, f"{len(seeds)} different seeds give the same instance; draw the instance from random.Random(seed)"
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
        if difference := _first_difference(original, repeat):
            raise GateFailed(
                f"the same seed and actions give different episodes in two processes: seed {original.seed}, "
                f"{difference}; draw everything from random.Random(seed), not from clocks, hashes, the order of sets "
                "or global state"
            )


def _first_difference(original: Transcript, repeat: Transcript) -> str:
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


async def _distinct_instances(trial: Trial, seeds: Sequence[int]) -> int:
    """Different first observations and, where they are known, solutions; if all agree, different answers to actions."""
    starts = await trial.first_observations(seeds)
    solutions = await trial.solutions(seeds) if await trial.knows_solutions(seeds) else [()] * len(starts)
    distinct = len(set(zip(starts, solutions, strict=True)))
    if distinct > 1:
        return distinct
    samples = [play for play in await trial.try_random_plays(trial.seeds, 1) if isinstance(play, Transcript)]
    for actions in (solutions[0], *(sample.actions for sample in samples)):
        plays = await trial.try_play([(seed, scripted(actions)) for seed in seeds])
        distinct = max(distinct, len({play.steps for play in plays if isinstance(play, Transcript)}))
    return distinct
