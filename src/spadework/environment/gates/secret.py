"""`secret`: what decides the win is hidden at the start, and acting reveals it.

Three checks, all on `solution()` and real plays; without a solution the gate has nothing to go by and passes.

1. *First observation.* The arguments in which the solutions of different seeds differ must not all stand at fixed
   places of the first observation (`leaks`). If the last action alone wins, its argument alone is looked at.
2. *Error texts.* The answer to a meaningless action, to a question for the program's state that the first observation
   does not tell of, or to the last action of another seed's solution, must not hold the argument of the last action at
   a fixed place while the episode goes on and that action still wins.
3. *Learnable.* Where seeds begin with the same observation and no solution of one of them wins on all, some action
   must show a difference between some of them before the end. Tried are all their solutions, numbers between theirs,
   what the observation suggests, and random plays.

Tool environments are looked at by `tool_secrets` instead.

A suspicion is confirmed on more seeds. Not caught: a secret that is random on top of different first
observations and never shown, and whatever `leaks` does not catch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, pairwise, zip_longest

from spadework.environment.gates.leaks import arguments, contains, leaks, tokens, words
from spadework.environment.gates.plays import GateFailed, Transcript, quote, scripted
from spadework.environment.gates.results import JSONValue
from spadework.environment.gates.scripted import PRYING
from spadework.environment.gates.tool_secrets import tool_secrets
from spadework.environment.gates.trial import Trial

MAX_SEEDS = 6
"""Most seeds of one group that are compared with each other."""
MAX_PROBES = 24
RANDOM_PROBES = 4

MEANINGLESS = ("", "zzz")

ACTIONS = {
    "meaningless": "meaningless action",
    "prying": "question for the program's state, which no observation tells of,",
    "wrong": "wrong action",
}
"""What a player who knows nothing may say first."""

_LAST_NUMBER = re.compile(r"(.*?)(\d{1,9})", re.DOTALL)


async def secret(trial: Trial) -> dict[str, JSONValue]:
    """Raises GateFailed or PlayFault."""
    if not await trial.knows_solutions(trial.seeds):
        return {"checked": False}
    if trial.uses_tools:
        return await tool_secrets(trial)
    if await _opening_leaks(trial, trial.seeds) and await _opening_leaks(trial, trial.confirming_seeds):
        raise GateFailed(await _opening_reason(trial))
    for name in ACTIONS:
        if await _answer_leaks(trial, trial.seeds, name) and await _answer_leaks(trial, trial.confirming_seeds, name):
            raise GateFailed(await _answer_reason(trial, name))
    groups = await _alike(trial, trial.seeds)
    for group in groups:
        if not await _told_apart(trial, group):
            more = [*trial.seeds, *trial.confirming_seeds]
            wider = [other for other in await _alike(trial, more) if group[0] in other]
            if not await _told_apart(trial, wider[0][:MAX_SEEDS]):
                raise GateFailed(_hidden_reason(group))
    return {"checked": True, "alike_at_first": sum(len(group) for group in groups)}


async def _opening_leaks(trial: Trial, seeds: tuple[int, ...]) -> bool:
    solved = await trial.solved(seeds)
    texts = [transcript.first_observation for transcript in solved]
    solutions = await trial.solutions(seeds)
    if len({len(solution) for solution in solutions}) == 1:
        columns = [arguments(column) for column in zip(*solutions, strict=True) if len(set(column)) > 1]
        if columns and all(spans is not None and leaks(spans, texts) for spans in columns):
            return True
    spans = arguments([solution[-1] for solution in solutions if solution])
    if spans is None or len(spans) < len(seeds) or not leaks(spans, texts):
        return False
    alone = await trial.play([(seed, scripted(solution[-1:])) for seed, solution in zip(seeds, solutions, strict=True)])
    return all([await trial.wins(seed, play) for seed, play in zip(seeds, alone, strict=True)])


async def _answer_leaks(trial: Trial, seeds: tuple[int, ...], name: str) -> bool:
    solutions = await trial.solutions(seeds)
    spans = arguments([solution[-1] for solution in solutions if solution])
    if spans is None or len(spans) < len(seeds):
        return False
    for first_actions in await _uninformed(trial, seeds, name):
        plays = await trial.play(
            [
                (seed, scripted((action, *solution[-1:])))
                for seed, action, solution in zip(seeds, first_actions, solutions, strict=True)
            ]
        )
        going_on = all(len(play.steps) == 2 for play in plays)
        if not going_on or not leaks(spans, [play.steps[0].observation for play in plays]):
            continue
        if all([await trial.wins(seed, play) for seed, play in zip(seeds, plays, strict=True)]):
            return True
    return False


async def _uninformed(trial: Trial, seeds: tuple[int, ...], name: str) -> list[list[str]]:
    """First actions of a player who knows nothing: one list per try, one action per seed."""
    if name == "meaningless":
        return [[action] * len(seeds) for action in MEANINGLESS]
    if name == "prying":
        return [[action] * len(seeds) for action in await _prying(trial, seeds[0])]
    last = [solution[-1] for solution in await trial.solutions(seeds)]
    for shift in range(1, len(seeds)):
        wrong = last[shift:] + last[:shift]
        if all(action != right for action, right in zip(wrong, last, strict=True)):
            return [wrong]
    return []


async def _prying(trial: Trial, seed: int) -> list[str]:
    """Those undocumented actions whose answer holds something of the solution that the first observation does not."""
    (opening,) = await trial.first_observations([seed])
    (solution,) = await trial.solutions([seed])
    wanted = set(tokens(solution[-1])) - set(tokens(opening))
    tried = [action for action in PRYING if not contains(tokens(opening), tokens(action))]
    plays = await trial.play([(seed, scripted((action,))) for action in tried])
    return [
        action
        for action, play in zip(tried, plays, strict=True)
        if play.steps and wanted & set(tokens(play.steps[0].observation))
    ]


async def _alike(trial: Trial, seeds: Sequence[int]) -> list[list[Transcript]]:
    """Solved plays that begin with the same observation but not all go on with the same actions."""
    groups: dict[str, list[Transcript]] = {}
    for transcript in await trial.solved(seeds):
        groups.setdefault(transcript.first_observation, []).append(transcript)
    return [group for group in groups.values() if len({transcript.actions for transcript in group}) > 1]


async def _told_apart(trial: Trial, group: Sequence[Transcript]) -> bool:
    """Whether some action tells some two of the group apart, or one solution wins on every seed of it."""
    crossed = await _on_each(trial, group, _solutions_of(group))
    for plays in crossed:
        if all([await trial.wins(play.seed, play) for play in plays if play.seed is not None]):
            return True
    if _some_difference(crossed):
        return True
    for scripts in (_in_between(group), _suggested(group[0]), await _random_actions(trial, group[0])):
        if _some_difference(await _on_each(trial, group, scripts)):
            return True
    return False


async def _on_each(
    trial: Trial, group: Sequence[Transcript], scripts: Sequence[tuple[str, ...]]
) -> list[list[Transcript]]:
    """Each script, played on the seed of each of the group."""
    plays = await trial.play([(side.seed, scripted(actions)) for actions in scripts for side in group])
    return [plays[start : start + len(group)] for start in range(0, len(plays), len(group))]


def _some_difference(rows: Sequence[Sequence[Transcript]]) -> bool:
    return any(shows_difference(*pair) for plays in rows for pair in combinations(plays, 2))


def shows_difference(left: Transcript, right: Transcript) -> bool:
    """Whether equal actions led to different observations while both episodes went on."""
    for step_left, step_right in zip(left.steps, right.steps, strict=False):
        if step_left.action != step_right.action or step_left.ends or step_right.ends:
            return False
        if step_left.observation != step_right.observation:
            return True
    return False


def _solutions_of(group: Sequence[Transcript]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(transcript.actions for transcript in group))[:MAX_SEEDS]


def _in_between(group: Sequence[Transcript]) -> list[tuple[str, ...]]:
    """If the first different actions end in whole numbers: the same with numbers between them, for searches."""
    turn = _first_different_turn(group)
    numbered = [_LAST_NUMBER.fullmatch(side.actions[turn]) for side in group if turn < len(side.actions)]
    found = sorted((int(match[2]), match[1]) for match in numbered if match)
    middles = [(f"{verb}{(low + high) // 2}") for (low, verb), (high, _) in pairwise(found) if high - low > 1]
    return [(*group[0].actions[:turn], middle) for middle in middles]


def _suggested(transcript: Transcript) -> list[tuple[str, ...]]:
    """Single actions: each word of the first observation, alone and after the first word of the winning actions."""
    said = words(transcript.first_observation)
    verbs = list(dict.fromkeys(action.split()[0] for action in transcript.actions if action.split()))[:1]
    pairs = [f"{verb} {word}" for verb in verbs for word in said]
    singles: list[tuple[str, ...]] = [(action,) for pair in zip(said, pairs, strict=False) for action in pair]
    return singles[:MAX_PROBES]


async def _random_actions(trial: Trial, transcript: Transcript) -> list[tuple[str, ...]]:
    assert transcript.seed is not None
    return [play.actions for play in await trial.random_plays([transcript.seed], RANDOM_PROBES)]


def _first_different_turn(group: Sequence[Transcript]) -> int:
    columns = zip_longest(*(transcript.actions for transcript in group))
    return next(turn for turn, column in enumerate(columns) if len(set(column)) > 1)


async def _opening_reason(trial: Trial) -> str:
    (solution,) = await trial.solutions(trial.seeds[:1])
    return (
        f"the first observation gives the solution away: on every seed what to say (seed {trial.seeds[0]}: "
        f"{quote(solution[-1])}) stands at the same place of it; show it only in answer to an action"
    )


async def _answer_reason(trial: Trial, name: str) -> str:
    (solution,) = await trial.solutions(trial.seeds[:1])
    return (
        f"the answer to a {ACTIONS[name]} gives the solution away: on every seed what to say (seed {trial.seeds[0]}: "
        f"{quote(solution[-1])}) stands in it and still wins; such answers must not hold it"
    )


def _hidden_reason(group: Sequence[Transcript]) -> str:
    turn = _first_different_turn(group)
    needed: dict[str, int | None] = {}
    for side in group:
        needed.setdefault(quote(side.actions[turn]) if turn < len(side.actions) else "nothing more", side.seed)
    (left, left_seed), (right, right_seed) = list(needed.items())[:2]
    return (
        f"seeds {left_seed} and {right_seed} begin with the same observation but need {left} and {right} at turn "
        f"{turn + 1}, and no action that was tried tells instances apart before the end; some action must reveal what "
        "decides"
    )
