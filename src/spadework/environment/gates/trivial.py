"""`not-trivial`: agents that know nothing of the instance earn less than a threshold.

Each scripted agent is scored by its mean terminal reward, as a share of what the solution earns. One that reaches the
threshold plays on `CONFIRMING_SEEDS` more seeds, and the program is rejected if the mean over all plays is still at
least one standard error above it: a fair game of three choices passes, one of two choices does not. Last, the
solution of one seed must not win on all others.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

from spadework.environment.gates.plays import Transcript, repeated, scripted
from spadework.environment.gates.results import JSONValue
from spadework.environment.gates.scripted import echo_last_line, echo_observation
from spadework.environment.gates.trial import Trial, require

Agent = Callable[[Sequence[int]], Awaitable[list[Transcript]]]
"""Plays of a scripted agent on the given seeds."""


async def not_trivial(trial: Trial, threshold: float, random_plays: int) -> dict[str, JSONValue]:
    """Raises GateFailed or PlayFault."""
    win = await trial.win_reward()
    returns: dict[str, JSONValue] = {}
    for name, agent in (await _agents(trial, random_plays)).items():
        scores = _scores(await agent(trial.seeds), win)
        if _mean(scores) >= threshold:
            scores += _scores(await agent(trial.confirming_seeds), win)
            require(
                _mean(scores) < threshold or _mean(scores) - _standard_error(scores) < threshold,
                f"an agent that {name} earns {_mean(scores):.2f} of the winning reward on average over {len(scores)} "
                f"plays; an agent that knows nothing must stay under {threshold:g}",
            )
        returns[name] = round(_mean(scores), 4)
    return {"returns": returns}


async def _agents(trial: Trial, random_plays: int) -> dict[str, Agent]:
    async def random(seeds: Sequence[int]) -> list[Transcript]:
        return [*(await trial.random_plays(seeds, random_plays)).values()]

    async def empty(seeds: Sequence[int]) -> list[Transcript]:
        return await trial.play([(seed, repeated(("",))) for seed in seeds])

    async def echo(seeds: Sequence[int]) -> list[Transcript]:
        return await trial.play([(seed, echo_observation) for seed in seeds])

    async def echo_line(seeds: Sequence[int]) -> list[Transcript]:
        return await trial.play([(seed, echo_last_line) for seed in seeds])

    async def one(seeds: Sequence[int]) -> list[Transcript]:
        return await trial.play([(seed, repeated(("1",))) for seed in seeds])

    async def constant(seeds: Sequence[int]) -> list[Transcript]:
        """Repeats the last action that wins on another seed."""
        others = await trial.solutions(_others(seeds))
        return await trial.play(
            [(seed, repeated(other[-1:] or ("",))) for seed, other in zip(seeds, others, strict=True)]
        )

    async def borrowed(seeds: Sequence[int]) -> list[Transcript]:
        others = await trial.solutions(_others(seeds))
        plays = [
            (seed, scripted((*other, *other[-1:] * trial.turn_limit)))
            for seed, other in zip(seeds, others, strict=True)
        ]
        return await trial.play(plays)

    agents: dict[str, Agent] = {
        "says nothing": empty,
        "always says 1": one,
        "repeats the observation": echo,
        "repeats the last line of the observation": echo_line,
        "acts at random": random,
    }
    if trial.has_solution and await trial.ask_solutions([*trial.seeds]):
        agents["repeats what wins on another seed"] = constant
        agents["plays the solution of another seed"] = borrowed
    return agents


def _others(seeds: Sequence[int]) -> list[int]:
    """For each seed its neighbour."""
    return [*seeds[1:], seeds[0]]


def _scores(transcripts: Sequence[Transcript], win: float) -> list[float]:
    return [max(-1.0, min(1.0, transcript.terminal_reward / win)) for transcript in transcripts]


def _mean(scores: Sequence[float]) -> float:
    return sum(scores) / len(scores)


def _standard_error(scores: Sequence[float]) -> float:
    mean = _mean(scores)
    return math.sqrt(sum((score - mean) ** 2 for score in scores) / (len(scores) - 1) / len(scores))
