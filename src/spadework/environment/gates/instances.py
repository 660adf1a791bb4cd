"""How many different instances a program has: what `determinism` asks of its seeds.

Two seeds give one instance if an agent that has met the first has nothing new to find on the second: equal first
observations and equal solutions, where letters that differ in case or style alone count as equal. A program that shows
and needs few different things may still answer differently to what its solution does (three doors, each with a number
behind it); so if there are few, those answers count as well.

Not caught: variety that decides nothing, such as a number of the day in the first observation.
"""

from __future__ import annotations

from spadework.environment.gates.leaks import fold
from spadework.environment.gates.plays import PlayFault, Transcript, scripted
from spadework.environment.gates.trial import Trial


async def count_instances(trial: Trial, enough: int) -> int:
    """Different instances on the surveyed seeds; if fewer than ``enough``, their answers tell them apart too.

    Raises PlayFault if the program does not start.
    """
    openings = await trial.survey_openings()
    known = await trial.knows_solutions(trial.seeds)
    answered = await trial.try_solutions(trial.survey) if known else [()] * len(openings)
    solutions = [() if isinstance(answer, PlayFault) else answer for answer in answered]
    shown = [(fold(opening), *map(fold, solution)) for opening, solution in zip(openings, solutions, strict=True)]
    counts = [len(set(shown))]
    if counts[0] >= enough:
        return counts[0]
    scripts = [solutions] if known else [[play.actions] * len(shown) for play in await _random_plays(trial)]
    for script in scripts:
        plays = await trial.try_play(
            [(seed, scripted(actions)) for seed, actions in zip(trial.survey, script, strict=True)]
        )
        answers = [tuple(map(fold, play.observations)) if isinstance(play, Transcript) else () for play in plays]
        counts.append(len(set(zip(shown, answers, strict=True))))
    return max(counts)


async def _random_plays(trial: Trial) -> list[Transcript]:
    return [play for play in await trial.try_random_plays(trial.seeds, 1) if isinstance(play, Transcript)]
