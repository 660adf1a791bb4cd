"""`not-trivial`: agents that know nothing of the instance earn less than a threshold.

Each agent of `cheaters` is scored by its mean terminal reward, as a share of what the solution earns. One that earns
half of the threshold or more plays on, up to `MORE_SEEDS` further seeds, until its mean is `SURE` standard errors away
from the threshold; then it beats the program if the mean is at least `LIKELY` standard errors above it. So a fair game
of three choices nearly always passes, and one of two choices, whose win rate would please any curriculum, hardly ever.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spadework.environment.gates.cheaters import BORROWERS, Agent, cheaters
from spadework.environment.gates.plays import Transcript, together
from spadework.environment.gates.results import JSONValue
from spadework.environment.gates.trial import Trial, require

FURTHER_SEEDS = 4
"""More seeds for the agents that borrow from a neighbour: few neighbours are alike only by chance."""

MORE_SEEDS = 128
SEEDS_AT_ONCE = 32
SURE = 2.5
LIKELY = 1.5


@dataclass(frozen=True)
class Score:
    """What an agent earned: ``mean`` of ``plays``, as a share of the winning reward, in [-1, 1]."""

    mean: float
    plays: int
    beats: bool
    """Whether the mean is likely not under the threshold."""


async def not_trivial(trial: Trial, threshold: float, random_plays: int) -> dict[str, JSONValue]:
    """Raises GateFailed or PlayFault."""
    agents = await cheaters(trial)
    returns: dict[str, JSONValue] = {}
    scores = await together(lambda name: score(trial, name, agents[name], threshold, random_plays), [*agents])
    for name, scored in zip(agents, scores, strict=True):
        if scored is None:
            continue
        require(
            not scored.beats,
            f"an agent that {name} earns {scored.mean:.2f} of the winning reward on average over {scored.plays} plays; "
            f"an agent that knows nothing must stay under {threshold:g}",
        )
        returns[name] = round(scored.mean, 4)
    return {"returns": returns}


async def score(trial: Trial, name: str, agent: Agent, threshold: float, random_plays: int) -> Score | None:
    """What ``agent`` earns on the tested seeds, and on more if that leaves doubts; None if it has nothing to play.

    Raises PlayFault.
    """
    win = await trial.win_reward()
    seeds = (*trial.seeds, *trial.further_seeds(0, FURTHER_SEEDS)) if name in BORROWERS else trial.seeds
    earned = _earned(await agent(seeds, random_plays), win)
    if not earned:
        return None
    if _mean(earned) < threshold / 2:
        return Score(_mean(earned), len(earned), False)
    for start in range(0, MORE_SEEDS, SEEDS_AT_ONCE):
        if abs(_mean(earned) - threshold) >= SURE * _standard_error(earned):
            break
        earned += _earned(await agent(trial.further_seeds(start, SEEDS_AT_ONCE), 1), win)
    return Score(_mean(earned), len(earned), _mean(earned) - LIKELY * _standard_error(earned) >= threshold)


def _earned(transcripts: Sequence[Transcript], win: float) -> list[float]:
    return [max(-1.0, min(1.0, transcript.terminal_reward / win)) for transcript in transcripts]


def _mean(earned: Sequence[float]) -> float:
    return sum(earned) / len(earned)


def _standard_error(earned: Sequence[float]) -> float:
    """Of the mean, as if one reward of 0 and one of 1 had been seen besides: a few equal rewards prove little."""
    padded = [*earned, 0.0, 1.0]
    mean = _mean(padded)
    variance = sum((one - mean) ** 2 for one in padded) / (len(padded) - 1)
    return math.sqrt(variance / len(padded))
