"""`secret` for tool environments: every argument of the solution can be known, and none is given away.

1. *Derivable.* Each value in a call of the solution stands in an instruction told before, in the result of a call of an
   earlier turn, or in a description; truths and the values that a schema lists are known anyway.
2. *Schemas.* The tools are the same on all seeds, so that nothing of an instance can stand in them.
3. *Error texts.* What a call with meaningless arguments is answered must not hold, at a fixed place, a value that the
   solutions learn from results only.

Not caught: values that must be computed or put into other words, which a fair program avoids, since the first check
rejects them; and a value that happens to stand in an unrelated text.
"""

from __future__ import annotations

from collections.abc import Sequence

from spadework.environment.gates.leaks import Tokens, leaks, tokens
from spadework.environment.gates.plays import GateFailed, Transcript, quote, scripted
from spadework.environment.gates.results import JSONValue
from spadework.environment.gates.tool_agents import REFUSALS, decoded, meaningless_calls
from spadework.environment.gates.tool_values import Argument, arguments, shown, shows, underivable
from spadework.environment.gates.trial import Trial, require


async def tool_secrets(trial: Trial) -> dict[str, JSONValue]:
    """Raises GateFailed, PlayFault or NotToolObservation."""
    solved = await trial.solved(trial.seeds)
    wanted = 0
    for transcript in solved:
        needed = arguments(transcript)
        wanted += len(needed)
        for argument in underivable(needed, shown(transcript))[:1]:
            raise GateFailed(
                f"the argument {argument.place} of {argument.call.name} at turn {argument.turn} of the solution is "
                f"{quote(str(argument.value))} (seed {transcript.seed}), which stands in no instruction and no earlier "
                "result; every value must be told or be found out by a call of an earlier turn"
            )
    tools = [decoded(transcript)[0].tools for transcript in solved]
    require(
        all(one == tools[0] for one in tools),
        "the schemas of the tools differ between seeds; what belongs to an instance is for results and instructions",
    )
    hidden = _hidden(solved)
    if hidden:
        await _require_silent_errors(trial, hidden, meaningless_calls(tools[0]))
    return {"checked": True, "arguments": wanted}


async def _require_silent_errors(trial: Trial, hidden: Sequence[Sequence[Tokens]], probes: Sequence[str]) -> None:
    plays = await trial.play([(seed, scripted([probe])) for probe in probes for seed in trial.seeds])
    count = len(trial.seeds)
    for index, probe in enumerate(probes):
        refusals = ["\n".join(_refusals(play)) for play in plays[index * count : (index + 1) * count]]
        for spans in hidden if all(refusals) else ():
            if leaks(spans, refusals):
                raise GateFailed(
                    f"the answer to a meaningless call ({quote(probe)}) gives away what must be found out: on every "
                    f"seed {quote(' '.join(spans[0]))} or its like stands at the same place of it"
                )


def _hidden(solved: Sequence[Transcript]) -> list[list[Tokens]]:
    """Arguments that stand at one place of all solutions, differ between seeds, and are in no instruction."""
    columns: dict[tuple[int, str, str], list[Argument]] = {}
    told: list[str] = []
    for transcript in solved:
        opening, answers = decoded(transcript)
        told.append("\n".join([*opening.told, *(text for answer in answers for text in answer.told)]))
        for argument in arguments(transcript):
            columns.setdefault((argument.turn, argument.call.id, argument.place), []).append(argument)
    found: list[list[Tokens]] = []
    for column in columns.values():
        values = [argument.value for argument in column]
        if len(column) < len(solved) or len(set(map(str, values))) < 2:
            continue
        if any(shows(text, value) for text, value in zip(told, values, strict=True)):
            continue
        found.append([tokens(str(value)) for value in values])
    return found


def _refusals(play: Transcript) -> list[str]:
    _, answers = decoded(play)
    return [result.content for answer in answers for result in answer.results if result.content.startswith(REFUSALS)]
