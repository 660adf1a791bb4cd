"""`secret`: what decides the win is hidden at the start, and acting reveals it.

Three checks, all on `solution()` and real plays; without a solution the gate has nothing to go by and passes.

1. *First observation.* The arguments in which the solutions of different seeds differ must not all stand at fixed
   places of the first observation (`leaks`). If the last action alone wins, its argument alone is looked at.
2. *Error texts.* The answer to a meaningless action, or to the last action of another seed's solution, must not hold
   the argument of the last action at a fixed place while the episode goes on and that action still wins.
3. *Learnable.* Two seeds that begin with the same observation and need different actions must differ in what some
   action shows before the end. Tried are both solutions, what the observation suggests, and random plays.

A suspicion under 1 or 2 is confirmed on more seeds. Not caught: a secret that is random on top of different first
observations and never shown, and whatever `leaks` does not catch.
"""

from __future__ import annotations

from itertools import combinations

from spadework.environment.gates.leaks import arguments, leaks, tokens
from spadework.environment.gates.plays import GateFailed, Transcript, quote, scripted
from spadework.environment.gates.results import JSONValue
from spadework.environment.gates.trial import Trial

MAX_PAIRS = 6
MAX_PROBES = 24
RANDOM_PROBES = 4

MEANINGLESS = ("", "zzz")


async def secret(trial: Trial) -> dict[str, JSONValue]:
    """Raises GateFailed or PlayFault."""
    if not trial.has_solution or not await trial.ask_solutions(trial.seeds):
        return {"checked": False}
    if await _opening_leaks(trial, trial.seeds) and await _opening_leaks(trial, trial.confirming_seeds):
        raise GateFailed(await _opening_reason(trial))
    for name in ("meaningless", "wrong"):
        if await _answer_leaks(trial, trial.seeds, name) and await _answer_leaks(trial, trial.confirming_seeds, name):
            raise GateFailed(await _answer_reason(trial, name))
    pairs = await _pairs_to_tell_apart(trial)
    for left, right in pairs:
        if not await _told_apart(trial, left, right):
            raise GateFailed(_hidden_reason(left, right))
    return {"checked": True, "pairs_told_apart": len(pairs)}


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
    last = [solution[-1] for solution in await trial.solutions(seeds)]
    for shift in range(1, len(seeds)):
        wrong = last[shift:] + last[:shift]
        if all(action != right for action, right in zip(wrong, last, strict=True)):
            return [wrong]
    return []


async def _pairs_to_tell_apart(trial: Trial) -> list[tuple[Transcript, Transcript]]:
    """Solved plays that begin alike and then need different actions, one pair for each two different solutions."""
    found: dict[frozenset[tuple[str, ...]], tuple[Transcript, Transcript]] = {}
    for left, right in combinations(await trial.solved(trial.seeds), 2):
        if left.first_observation == right.first_observation and left.actions != right.actions:
            found.setdefault(frozenset((left.actions, right.actions)), (left, right))
    return list(found.values())[:MAX_PAIRS]


async def _told_apart(trial: Trial, left: Transcript, right: Transcript) -> bool:
    if shows_difference(left, right):
        return True
    cross = await trial.play([(right.seed, scripted(left.actions)), (left.seed, scripted(right.actions))])
    if shows_difference(left, cross[0]) or shows_difference(cross[1], right):
        return True
    for probes in (_suggested(left), await _random_actions(trial, left)):
        plays = await trial.play([(side.seed, scripted(actions)) for actions in probes for side in (left, right)])
        if any(shows_difference(plays[i], plays[i + 1]) for i in range(0, len(plays), 2)):
            return True
    return False


def shows_difference(left: Transcript, right: Transcript) -> bool:
    """Whether equal actions led to different observations while both episodes went on."""
    for step_left, step_right in zip(left.steps, right.steps, strict=False):
        if step_left.action != step_right.action or step_left.ends or step_right.ends:
            return False
        if step_left.observation != step_right.observation:
            return True
    return False


def _suggested(transcript: Transcript) -> list[tuple[str, ...]]:
    """Single actions: each word of the first observation, alone and after the first word of the winning actions."""
    words = [word for word in dict.fromkeys(tokens(transcript.first_observation)) if word.isalnum()]
    verbs = list(dict.fromkeys(action.split()[0] for action in transcript.actions if action.split()))[:1]
    pairs = [f"{verb} {word}" for verb in verbs for word in words]
    singles: list[tuple[str, ...]] = [(action,) for pair in zip(words, pairs, strict=False) for action in pair]
    return singles[:MAX_PROBES]


async def _random_actions(trial: Trial, transcript: Transcript) -> list[tuple[str, ...]]:
    assert transcript.seed is not None
    plays = await trial.random_plays([transcript.seed], RANDOM_PROBES)
    return [play.actions for play in plays.values()]


async def _opening_reason(trial: Trial) -> str:
    (solution,) = await trial.solutions(trial.seeds[:1])
    return (
        f"the first observation gives the solution away: on every seed what to say (seed {trial.seeds[0]}: "
        f"{quote(solution[-1])}) stands at the same place of it; show it only in answer to an action"
    )


async def _answer_reason(trial: Trial, name: str) -> str:
    (solution,) = await trial.solutions(trial.seeds[:1])
    return (
        f"the answer to a {name} action gives the solution away: on every seed what to say (seed {trial.seeds[0]}: "
        f"{quote(solution[-1])}) stands in it and still wins; error texts must not hold the answer"
    )


def _hidden_reason(left: Transcript, right: Transcript) -> str:
    turn = next(
        (i for i, (a, b) in enumerate(zip(left.actions, right.actions, strict=False)) if a != b),
        min(len(left.actions), len(right.actions)),
    )
    needed = " and ".join(
        quote(side.actions[turn]) if turn < len(side.actions) else "nothing more" for side in (left, right)
    )
    return (
        f"seeds {left.seed} and {right.seed} show the same but need {needed} at turn {turn + 1}, and no action tried "
        "tells them apart before the end; some action must reveal what decides"
    )
