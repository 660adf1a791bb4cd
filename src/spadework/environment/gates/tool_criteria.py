"""`solvable` for tool environments: criteria that can be judged and made true, and a solution without waste.

On the reset state of several seeds every criterion is evaluated: none may fail, none may hold already. What a criterion
reads must be written by some tool, in the type that it had. The solution's calls are carried out, each instruction is
still to be done when it is told, and skipping any one call loses, unless its answer is where a later argument comes
from. Some tools are not needed at all.
Not caught: a criterion that compares with a value of the wrong type is only seen not to hold, and a tool that is not
needed but does what a needed one does counts as one that only looks useful.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from spadework.environment.gates.plays import Inspected, quote, scripted
from spadework.environment.gates.tool_agents import decoded
from spadework.environment.gates.tool_trace import written_keys
from spadework.environment.gates.tool_values import arguments, shown, underivable
from spadework.environment.gates.trial import Trial, require
from spadework.environment.tool_calls import Call, Inspection, encode_calls, read_calls
from spadework.sandbox.inside.schemas import kind

SKIPPED_SEEDS = 2
"""Seeds on which every single call of the solution is skipped once."""

_ANY = "null"


async def require_judgeable(trial: Trial) -> None:
    """What holds before anything is played. Raises GateFailed or PlayFault."""
    seeds = (*trial.seeds, *trial.confirming_seeds)
    for seed, before in zip(seeds, await trial.inspections(seeds), strict=True):
        for number, criterion in enumerate(before.criteria, 1):
            require(not criterion.problem, f"{criterion.problem} at the start (seed {seed})")
            require(
                criterion.holds is False,
                f"the criterion of instruction {number} ({quote(before.instructions[number - 1])}) holds already "
                f"at the start (seed {seed}); it must be false until the agent has done something",
            )


async def require_reachable(trial: Trial) -> None:
    """What the solutions show of tools and criteria, whether they win or not. Raises GateFailed or PlayFault."""
    plays = await trial.inspected_solutions()
    keys = written_keys(trial.program.source)
    for play in plays:
        _require_same_types(play)
    for number in range(min(len(play.inspections[0].criteria) for play in plays)):
        reads = {path for play in plays for inside in play.inspections for path in inside.criteria[number].reads}
        require(
            bool(reads),
            f"the criterion of instruction {number + 1} does not look at the state; what it depends on belongs into "
            "self.state",
        )
        changed = {path for play in plays for path in _changes(play.inspections)}
        require(
            any(key in keys for path in reads for key in path) or any(_touches(path, changed) for path in reads),
            f"no tool writes what the criterion of instruction {number + 1} reads ({_places(reads)})",
        )


async def require_economical(trial: Trial, distractors: int) -> None:
    """What a solution that wins must be like. Raises GateFailed or PlayFault.

    Programs whose criteria cannot be seen may want an answer in words, and then lookups are needed for that alone.
    """
    plays = await trial.inspected_solutions()
    if not plays[0].inspections[0].criteria:
        return
    for play in plays:
        _require_one_by_one(play)
        _require_executed(play)
    for play in plays[:SKIPPED_SEEDS]:
        await _require_needed(trial, play)
    used = {call.name for play in plays for action in play.transcript.actions for call in read_calls(action)}
    known = [tool["function"]["name"] for tool in decoded(plays[0].transcript)[0].tools]
    unused = [name for name in known if name not in used]
    require(
        len(unused) >= distractors,
        f"the solutions need all but {len(unused)} of the tools ({', '.join(known)}); at least {distractors} must look "
        "useful without being needed",
    )


def _require_one_by_one(play: Inspected) -> None:
    """An instruction that is done before it is told asks for nothing."""
    for turn, (before, after) in enumerate(pairwise(play.inspections), 1):
        if before.position < after.position < len(after.criteria):
            require(
                after.criteria[after.position].holds is False,
                f"instruction {after.position + 1} ({quote(after.instructions[after.position])}) is done already when "
                f"it is told, after turn {turn} of the solution (seed {play.transcript.seed}); what it asks for must "
                "still be to do",
            )


def _require_executed(play: Inspected) -> None:
    _, answers = decoded(play.transcript)
    for turn, answer in enumerate(answers, 1):
        for result in answer.results:
            require(
                result.executed,
                f"a call of the solution is not carried out at turn {turn} (seed {play.transcript.seed}): "
                f"{result.name}: {result.content[:160]}",
            )


def _require_same_types(play: Inspected) -> None:
    first, last = play.inspections[0], play.inspections[-1]
    for number, criterion in enumerate(first.criteria, 1):
        for path in criterion.reads:
            was, became = _at(first.state, path), _at(last.state, path)
            if was is None or became is None:
                continue
            before, after = _kind(was), _kind(became)
            require(
                before == after or _ANY in (before, after),
                f"the criterion of instruction {number} reads state{_place(path)}, which is {before} at the start and "
                f"which a tool makes {after} (seed {play.transcript.seed}); a tool must write the type that was there",
            )


async def _require_needed(trial: Trial, play: Inspected) -> None:
    transcript = play.transcript
    turns = [read_calls(action) for action in transcript.actions]
    single = [(turn, number) for turn, calls in enumerate(turns) for number in range(len(calls))]
    assert transcript.seed is not None
    shorter = await trial.play([(transcript.seed, scripted(_without(turns, *place))) for place in single])
    wanted, texts = arguments(transcript), shown(transcript)
    for (turn, number), attempt in zip(single, shorter, strict=True):
        if not await trial.wins(transcript.seed, attempt):
            continue
        skipped = turns[turn][number]
        require(
            bool(underivable(wanted, texts, without=(turn + 1, skipped.id))),
            f"the solution wins as well without its call of {skipped.name} at turn {turn + 1} (seed "
            f"{transcript.seed}), and no later argument comes from its answer; every call of a solution must be needed",
        )


def _without(turns: Sequence[Sequence[Call]], turn: int, number: int) -> list[str]:
    left = [
        [call for at, call in enumerate(calls) if (index, at) != (turn, number)] for index, calls in enumerate(turns)
    ]
    return [encode_calls(calls) for calls in left if calls]


def _changes(inspections: Sequence[Inspection]) -> set[tuple[str, ...]]:
    """Places of the state that some turn changed."""
    found: set[tuple[str, ...]] = set()
    for before, after in pairwise(inspections):
        found |= _different(before.state, after.state, ())
    return found


def _different(left: object, right: object, path: tuple[str, ...]) -> set[tuple[str, ...]]:
    if isinstance(left, dict) and isinstance(right, dict):
        found: set[tuple[str, ...]] = set()
        for key in left.keys() | right.keys():
            if key in left and key in right:
                found |= _different(left[key], right[key], (*path, key))
            else:
                found.add((*path, key))
        return found
    return set() if left == right else {path}


def _touches(path: tuple[str, ...], changed: set[tuple[str, ...]]) -> bool:
    return any(one[: len(path)] == path or path[: len(one)] == one for one in changed)


def _at(state: object, path: tuple[str, ...]) -> object:
    """None if there is nothing at ``path``."""
    for key in path:
        if isinstance(state, dict):
            state = state.get(key)
        elif isinstance(state, list) and key.isdecimal() and int(key) < len(state):
            state = state[int(key)]
        else:
            return None
    return state


def _kind(value: object) -> str:
    found = kind(value)
    return "number" if found == "integer" else found


def _place(path: tuple[str, ...]) -> str:
    return "".join(f"[{key!r}]" for key in path)[:120]


def _places(paths: set[tuple[str, ...]]) -> str:
    return ", ".join(f"state{_place(path)}" for path in sorted(paths)[:3])
