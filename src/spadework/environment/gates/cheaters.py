"""Scripted agents that know nothing of the instance: what `not-trivial` asks of a program is that they earn little.

They say one thing only, echo, act at random, borrow what wins on other seeds, or give answers that a careless check of
the answer lets through: none, all at once, a pattern, a single character. Those of tool environments call tools.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import numpy as np

from spadework.environment.gates.leaks import arguments, common_start, words
from spadework.environment.gates.plays import Choose, Transcript, repeated, scripted
from spadework.environment.gates.scripted import echo_last_line, echo_observation, guesser
from spadework.environment.gates.tool_agents import error_copier, says, stubborn_caller
from spadework.environment.gates.trial import SeededAgent, Trial
from spadework.seeding import generator

Agent = Callable[[Sequence[int], int], Awaitable[list[Transcript]]]
"""Plays of a scripted agent on the given seeds, so many on each if it draws at random."""

ECHOERS = ("repeats the observation", "repeats the last line of the observation")
BORROWERS = ("repeats what wins on another seed", "plays the solution of another seed")
PATTERNS = (".*", "*")
DIGITS = "1234567890"
LETTERS = "scpbramtdfhgielwonuvjkqyzx"
"""As often as words begin with them."""
MAX_ANSWERS_CHARS = 2000


async def cheaters(trial: Trial) -> dict[str, Agent]:
    """The agents by what they do. Those that need solutions are left out where none are known."""
    agents = {"says nothing": said(trial, repeated(("",)))} | (_callers(trial) if trial.uses_tools else _talkers(trial))
    if not await trial.knows_solutions(trial.seeds):
        return agents
    agents |= dict(zip(BORROWERS, (partial(_constant, trial), partial(_borrowed, trial)), strict=True))
    agents["repeats the first action of another seed"] = partial(_first_action, trial)
    if trial.uses_tools:
        return agents
    agents["guesses among what it is shown"] = partial(_guessing, trial)
    return agents | _careless_checks(trial, *answers(await trial.known_last_actions()))


def _talkers(trial: Trial) -> dict[str, Agent]:
    return {
        "always says 1": said(trial, repeated(("1",))),
        **dict(zip(ECHOERS, (said(trial, echo_observation), said(trial, echo_last_line)), strict=True)),
        "acts at random": trial.random_plays,
    }


def _callers(trial: Trial) -> dict[str, Agent]:
    """Those for tool environments: they call tools, with values that they were shown."""
    return {
        "says that it is done": said(trial, says("done")),
        "calls tools with random arguments": trial.random_plays,
        "repeats its last call": drawing(trial, "stubborn-agent", stubborn_caller),
        "copies values from error texts": drawing(trial, "copying-agent", error_copier),
    }


def drawing(trial: Trial, name: str, choose: Callable[[np.random.Generator], Choose]) -> Agent:
    """The agent that draws at random, so many times on each seed."""

    async def agent(seeds: Sequence[int], count: int) -> list[Transcript]:
        draws = [(seed, number) for seed in seeds for number in range(count)]
        return await trial.play(
            [(seed, choose(generator(trial.run_seed, name, trial.program.id, seed, number))) for seed, number in draws]
        )

    return agent


def said(trial: Trial, choose: Choose) -> Agent:
    """The agent that chooses so on every seed."""

    async def agent(seeds: Sequence[int], count: int) -> list[Transcript]:
        return await trial.play([(seed, choose) for seed in seeds])

    return agent


def answers(actions: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """What last actions begin with alike, with `{}` for the rest, and the different rests, sorted.

    `("say {}", ("amber", "birch"))`. Without rests if all actions are equal.
    """
    split = [action.split() for action in actions]
    alike = common_start(split)
    if any(len(parts) == alike for parts in split):
        alike = 0
    rests = tuple(sorted({" ".join(parts[alike:]) for parts in split}))
    command = " ".join([*split[0][:alike], "{}"]) if split else "{}"
    return command, rests if len(rests) > 1 else ()


def _careless_checks(trial: Trial, command: str, rests: Sequence[str]) -> dict[str, Agent]:
    if not rests:
        return {}
    everything = " ".join(rests)[:MAX_ANSWERS_CHARS]
    forms = {
        "leaves the answer out": [""],
        "gives all answers at once": [everything],
        **{f"gives {pattern} as the answer": [pattern] for pattern in PATTERNS},
    }
    if all(len(rest) > 1 for rest in rests):
        characters = DIGITS if all(rest[0].isdecimal() for rest in rests) else LETTERS
        forms["gives single characters as answers"] = [*characters]
    return {
        name: said(trial, scripted([command.replace("{}", form).strip() for form in tried]))
        for name, tried in forms.items()
    }


async def _constant(trial: Trial, seeds: Sequence[int], count: int) -> list[Transcript]:
    """Repeats the last action that wins on another seed."""
    return await trial.play([(seed, repeated(other[-1:])) for seed, other in await _borrowings(trial, seeds)])


async def _borrowed(trial: Trial, seeds: Sequence[int], count: int) -> list[Transcript]:
    return await trial.play(
        [(seed, scripted((*other, *other[-1:] * trial.turn_limit))) for seed, other in await _borrowings(trial, seeds)]
    )


async def _first_action(trial: Trial, seeds: Sequence[int], count: int) -> list[Transcript]:
    """Also shows whether the same progress is paid for again and again; `solvable` looks at it."""
    return await trial.play(
        [(seed, repeated(other[:1])) for seed, other in await _borrowings(trial, seeds) if len(other) > 1]
    )


async def _borrowings(trial: Trial, seeds: Sequence[int]) -> list[tuple[int, tuple[str, ...]]]:
    """For each seed the solution of its neighbour, where that has one."""
    others = await trial.try_solutions([*seeds[1:], seeds[0]])
    return [(seed, other or ("",)) for seed, other in zip(seeds, others, strict=True) if isinstance(other, tuple)]


async def _guessing(trial: Trial, seeds: Sequence[int], count: int) -> list[Transcript]:
    plays: list[SeededAgent] = []
    for seed, (command, options) in zip(seeds, await _choices(trial, seeds), strict=True):
        for number in range(count if options else 0):
            rng = generator(trial.run_seed, "guessing-agent", trial.program.id, seed, number)
            plays.append((seed, guesser(rng, command, options)))
    return await trial.play(plays)


async def _choices(trial: Trial, seeds: Sequence[int]) -> list[tuple[str, tuple[str, ...]]]:
    """For each seed the last action of its solution, with `{}` for its argument, and what may take its place.

    That is what only this seed's first observation shows: numbers if the argument is a number, else words. Nothing may
    take the place of arguments of several words, and a single option is no guess: `secret` deals with that.
    """
    solved = [play for play in await trial.try_solved(seeds) if isinstance(play, Transcript)]
    if len(solved) < len(seeds):
        return [("", ())] * len(seeds)
    last = [transcript.actions[-1] if transcript.steps else "" for transcript in solved]
    shown = [words(transcript.first_observation) for transcript in solved]
    everywhere = set.intersection(*map(set, shown))
    choices: list[tuple[str, tuple[str, ...]]] = []
    for action, span, seen in zip(last, arguments(last) or [()] * len(last), shown, strict=True):
        argument = span[0] if len(span) == 1 else ""
        place = re.search(rf"(?<!\w){re.escape(argument)}(?!\w)", action, re.IGNORECASE) if argument else None
        own = [word for word in seen if word not in everywhere]
        options = tuple(word for word in own if word.isdecimal() == argument.isdecimal())
        command = f"{action[: place.start()]}{{}}{action[place.end() :]}" if place else ""
        choices.append((command, options if command and len(options) > 1 else ()))
    return choices
