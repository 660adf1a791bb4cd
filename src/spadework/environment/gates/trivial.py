"""`not-trivial`: agents that know nothing of the instance earn less than a threshold.

Each scripted agent is scored by its mean terminal reward, as a share of what the solution earns. One that earns half
of the threshold or more plays on, up to `MORE_SEEDS` further seeds, until its mean is `SURE` standard errors away from
the threshold; then the program is rejected if the mean is at least `LIKELY` standard errors above it. So a fair game of
three choices nearly always passes, and one of two choices, whose win rate would please any curriculum, hardly ever.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from spadework.environment.gates.leaks import arguments, tokens
from spadework.environment.gates.plays import Choose, Transcript, repeated, scripted, together
from spadework.environment.gates.results import JSONValue
from spadework.environment.gates.scripted import echo_last_line, echo_observation, guesser
from spadework.environment.gates.tool_agents import error_copier, says, stubborn_caller
from spadework.environment.gates.trial import SeededAgent, Trial, require
from spadework.seeding import generator

Agent = Callable[[Sequence[int], int], Awaitable[list[Transcript]]]
"""Plays of a scripted agent on the given seeds, so many on each if it draws at random."""

BORROWERS = ("repeats what wins on another seed", "plays the solution of another seed")
FURTHER_SEEDS = 4
"""More seeds for the agents that borrow from a neighbour: few neighbours are alike only by chance."""

MORE_SEEDS = 128
SEEDS_AT_ONCE = 32
SURE = 2.5
LIKELY = 1.5


async def not_trivial(trial: Trial, threshold: float, random_plays: int) -> dict[str, JSONValue]:
    """Raises GateFailed or PlayFault."""
    win = await trial.win_reward()
    returns: dict[str, JSONValue] = {}
    agents = await _agents(trial)
    seeds = (*trial.seeds, *trial.further_seeds(0, FURTHER_SEEDS))
    played = await together(
        lambda name: agents[name](seeds if name in BORROWERS else trial.seeds, random_plays), [*agents]
    )
    for (name, agent), plays in zip(agents.items(), played, strict=True):
        scores = _scores(plays, win)
        if not scores:
            continue
        if _mean(scores) >= threshold / 2:
            scores = await _more_scores(trial, agent, win, scores, threshold)
            require(
                _mean(scores) - LIKELY * _standard_error(scores) < threshold,
                f"an agent that {name} earns {_mean(scores):.2f} of the winning reward on average over {len(scores)} "
                f"plays; an agent that knows nothing must stay under {threshold:g}",
            )
        returns[name] = round(_mean(scores), 4)
    return {"returns": returns}


async def _more_scores(trial: Trial, agent: Agent, win: float, scores: list[float], threshold: float) -> list[float]:
    """Scores on further seeds are added until they decide on which side of ``threshold`` the mean lies."""
    for start in range(0, MORE_SEEDS, SEEDS_AT_ONCE):
        if abs(_mean(scores) - threshold) >= SURE * _standard_error(scores):
            break
        seeds = trial.further_seeds(start, SEEDS_AT_ONCE)
        scores = [*scores, *_scores(await agent(seeds, 1), win)]
    return scores


async def _agents(trial: Trial) -> dict[str, Agent]:
    async def random(seeds: Sequence[int], count: int) -> list[Transcript]:
        return await trial.random_plays(seeds, count)

    async def empty(seeds: Sequence[int], count: int) -> list[Transcript]:
        return await trial.play([(seed, repeated(("",))) for seed in seeds])

    async def echo(seeds: Sequence[int], count: int) -> list[Transcript]:
        return await trial.play([(seed, echo_observation) for seed in seeds])

    async def echo_line(seeds: Sequence[int], count: int) -> list[Transcript]:
        return await trial.play([(seed, echo_last_line) for seed in seeds])

    async def one(seeds: Sequence[int], count: int) -> list[Transcript]:
        return await trial.play([(seed, repeated(("1",))) for seed in seeds])

    async def constant(seeds: Sequence[int], count: int) -> list[Transcript]:
        """Repeats the last action that wins on another seed."""
        others = await trial.solutions(_others(seeds))
        return await trial.play(
            [(seed, repeated(other[-1:] or ("",))) for seed, other in zip(seeds, others, strict=True)]
        )

    async def borrowed(seeds: Sequence[int], count: int) -> list[Transcript]:
        others = await trial.solutions(_others(seeds))
        plays = [
            (seed, scripted((*other, *other[-1:] * trial.turn_limit)))
            for seed, other in zip(seeds, others, strict=True)
        ]
        return await trial.play(plays)

    async def guessing(seeds: Sequence[int], count: int) -> list[Transcript]:
        plays: list[SeededAgent] = []
        for seed, (command, options) in zip(seeds, await _choices(trial, seeds), strict=True):
            for number in range(count if options else 0):
                rng = generator(trial.run_seed, "guessing-agent", trial.program.id, seed, number)
                plays.append((seed, guesser(rng, command, options)))
        return await trial.play(plays)

    async def done(seeds: Sequence[int], count: int) -> list[Transcript]:
        return await trial.play([(seed, says("done")) for seed in seeds])

    async def copier(seeds: Sequence[int], count: int) -> list[Transcript]:
        return await drawing("copying-agent", error_copier, seeds, count)

    async def stubborn(seeds: Sequence[int], count: int) -> list[Transcript]:
        return await drawing("stubborn-agent", stubborn_caller, seeds, count)

    async def drawing(
        name: str, agent: Callable[[np.random.Generator], Choose], seeds: Sequence[int], count: int
    ) -> list[Transcript]:
        draws = [
            (seed, generator(trial.run_seed, name, trial.program.id, seed, number))
            for seed in seeds
            for number in range(count)
        ]
        return await trial.play([(seed, agent(rng)) for seed, rng in draws])

    agents: dict[str, Agent] = {"says nothing": empty}
    if trial.uses_tools:
        agents |= {
            "says that it is done": done,
            "calls tools with random arguments": random,
            "repeats its last call": stubborn,
            "copies values from error texts": copier,
        }
    else:
        agents |= {
            "always says 1": one,
            "repeats the observation": echo,
            "repeats the last line of the observation": echo_line,
            "acts at random": random,
        }
    if await trial.knows_solutions(trial.seeds):
        agents |= dict(zip(BORROWERS, (constant, borrowed), strict=True))
        if not trial.uses_tools:
            agents["guesses among what it is shown"] = guessing
    return agents


async def _choices(trial: Trial, seeds: Sequence[int]) -> list[tuple[str, tuple[str, ...]]]:
    """For each seed the last action of its solution, with `{}` for its argument, and what may take its place.

    That is what only this seed's first observation shows: numbers if the argument is a number, else words. Nothing may
    take the place of arguments of several words, and a single option is no guess: `secret` deals with that.
    """
    solved = [play for play in await trial.try_solved(seeds) if isinstance(play, Transcript)]
    if len(solved) < len(seeds):
        return [("", ())] * len(seeds)
    last = [transcript.actions[-1] if transcript.steps else "" for transcript in solved]
    shown = [tokens(transcript.first_observation) for transcript in solved]
    everywhere = set.intersection(*(set(words) for words in shown))
    choices: list[tuple[str, tuple[str, ...]]] = []
    for action, span, words in zip(last, arguments(last) or [()] * len(last), shown, strict=True):
        argument = span[0] if len(span) == 1 else ""
        place = re.search(rf"(?<!\w){re.escape(argument)}(?!\w)", action, re.IGNORECASE) if argument else None
        own = [word for word in dict.fromkeys(words) if word not in everywhere and word.isalnum()]
        options = tuple(word for word in own if word.isdecimal() == argument.isdecimal())
        command = f"{action[: place.start()]}{{}}{action[place.end() :]}" if place else ""
        choices.append((command, options if command and len(options) > 1 else ()))
    return choices


def _others(seeds: Sequence[int]) -> list[int]:
    """For each seed its neighbour."""
    return [*seeds[1:], seeds[0]]


def _scores(transcripts: Sequence[Transcript], win: float) -> list[float]:
    return [max(-1.0, min(1.0, transcript.terminal_reward / win)) for transcript in transcripts]


def _mean(scores: Sequence[float]) -> float:
    return sum(scores) / len(scores)


def _standard_error(scores: Sequence[float]) -> float:
    """Of the mean, as if one score of 0 and one of 1 had been seen besides: a few equal scores prove little."""
    padded = [*scores, 0.0, 1.0]
    mean = _mean(padded)
    variance = sum((score - mean) ** 2 for score in padded) / (len(padded) - 1)
    return math.sqrt(variance / len(padded))
