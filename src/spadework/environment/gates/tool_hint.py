"""`hint-safe` for tool environments: the hint is a plan of a few steps, and no step holds a value.

A value is whatever stands in the state of a tested seed, at its start or after its solution, or in an argument of the
solution: names, identifiers, amounts, dates, statuses. Names of tools, of their parameters and of fields of the state
are no values, nor is what the first observation says on every seed. Then the hint is followed to the letter: calls that
it writes out, and the tools that it names, in its order, with arguments from its own words; that must not win.

Not caught: a value in other words, such as a number that is spelt out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from spadework.environment.gates.leaks import Tokens, contains, tokens
from spadework.environment.gates.plays import Choose, GateFailed, Inspected, Transcript, quote, repeated
from spadework.environment.gates.results import JSONValue
from spadework.environment.gates.tool_agents import DONE, decoded, drawn_arguments, values_in
from spadework.environment.gates.tool_values import arguments
from spadework.environment.gates.trial import SeededAgent, Trial, require
from spadework.environment.tool_calls import Call, encode_calls, encode_text, read_calls
from spadework.environment.tool_formats import ToolFormat, read_tool_reply
from spadework.seeding import generator

MAX_STEPS = 10
MIN_VALUE_CHARS = 3
SMALLEST_NUMBER = 10
"""Smaller whole numbers count things in a plan."""
LITERAL_PLAYS = 3
"""Plays per seed of the agent that follows the hint to the letter."""

_STEP = re.compile(r"(?:^|\n)\s*(?:\d{1,2}[.)]|[-*•])\s+|[.!?;](?:\s+|$)|\n")
_MARKER = re.compile(r"(?:^|(?<=\n))\s*\d{1,2}[.)]\s+")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?!\w)")


async def tool_hint_safe(trial: Trial, hint: str) -> dict[str, JSONValue]:
    """Raises GateFailed, PlayFault or NotToolObservation."""
    steps = len([part for part in _STEP.split(hint) if part.strip()])
    require(steps <= MAX_STEPS, f"the hint has {steps} steps or sentences; at most {MAX_STEPS} are allowed")
    if not await trial.knows_solutions(trial.seeds):
        return {"steps": steps, "checked": False}
    plays = await trial.inspected_solutions()
    _require_no_values(_MARKER.sub(" ", hint), plays)
    await _require_no_win(trial, hint)
    return {"steps": steps, "checked": True}


def _require_no_values(hint: str, plays: Sequence[Inspected]) -> None:
    public = _public(plays)
    spoken = tokens(hint)
    numbers = {float(match.replace(",", "")) for match in _NUMBER.findall(hint) if match.count(".") < 2}
    for play in plays:
        for value in _values(play, _fields(plays)):
            if isinstance(value, str):
                span = tokens(value)
                found = len(value.strip()) >= MIN_VALUE_CHARS and contains(spoken, span) and not public(span)
            else:
                found = (value >= SMALLEST_NUMBER or not float(value).is_integer()) and float(value) in numbers
            if found:
                raise GateFailed(
                    f"the hint holds {quote(str(value))}, a value of seed {play.transcript.seed}; say where to look it "
                    "up instead, and name no status, amount, date, person or identifier"
                )


def _public(plays: Sequence[Inspected]) -> Callable[[Tokens], bool]:
    """A test for runs of words that every player may know: they are in all first observations, or name tools."""
    names: set[str] = set()
    for play in plays:
        for tool in decoded(play.transcript)[0].tools:
            names |= {*tokens(tool["function"]["name"].replace("_", " "))}
            for key in tool["function"]["parameters"].get("properties", {}):
                names |= {*tokens(key.replace("_", " "))}
    told = [tokens("\n".join(decoded(play.transcript)[0].told)) for play in plays]

    def public(span: Tokens) -> bool:
        return all(word in names for word in span) or all(contains(text, span) for text in told)

    return public


def _fields(plays: Sequence[Inspected]) -> frozenset[str]:
    """Keys that the states of all seeds have: fields, and no identifiers."""
    keys = [set(_keys(play.inspections[0].state)) for play in plays]
    return frozenset(set.intersection(*keys))


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from _keys(part)
    elif isinstance(value, list):
        for part in value:
            yield from _keys(part)


def _values(play: Inspected, fields: frozenset[str]) -> Iterator[str | int | float]:
    for inside in (play.inspections[0], play.inspections[-1]):
        yield from _leaves(inside.state, fields)
    yield from (argument.value for argument in arguments(play.transcript))
    for step in play.transcript.steps:
        yield from _strings_of_calls(step.action)


def _leaves(value: Any, fields: frozenset[str]) -> Iterator[str | int | float]:
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in fields:
                yield key
            yield from _leaves(part, fields)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part, fields)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def _strings_of_calls(action: str) -> Iterator[str]:
    """Texts among the arguments, those that the schema lists included: a status is a value, too."""
    for call in read_calls(action):
        for value in call.arguments.values():
            if isinstance(value, str):
                yield value


async def _require_no_win(trial: Trial, hint: str) -> None:
    openings = await trial.first_observations(trial.seeds)
    plays: list[SeededAgent] = []
    for seed, first in zip(trial.seeds, openings, strict=True):
        tools = decoded(Transcript(seed, first, ()))[0].tools
        plays.append((seed, repeated((encode_text(hint),))))
        plays += [(seed, repeated((action,))) for action in _written_calls(hint, tools)]
        for number in range(LITERAL_PLAYS):
            rng = generator(trial.run_seed, "literal-agent", trial.program.id, seed, number)
            plays.append((seed, _literal(hint, tools, rng)))
    for play in await trial.play(plays):
        assert play.seed is not None
        require(
            not await trial.wins(play.seed, play),
            f"an agent that only does what the hint says to the letter wins on seed {play.seed}; a hint must leave "
            "the values to be found out",
        )


def _written_calls(hint: str, tools: Sequence[dict[str, Any]]) -> list[str]:
    """Calls that the hint writes out, in any format."""
    found = [read_tool_reply(hint, format, tools, 0) for format in ToolFormat]
    return [encode_calls([call for call in reply.calls if not call.problem]) for reply in found if reply.calls]


def _literal(hint: str, tools: Sequence[dict[str, Any]], rng: np.random.Generator) -> Choose:
    """Calls the tools that the hint names, in its order and again, with its own words as arguments; then is done."""
    functions = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    lower = hint.lower()
    places = [(place, name) for name in functions for place in _places(lower, name)]
    order = [name for _, name in sorted(places)]
    values = values_in(hint)

    def choose(transcript: Transcript) -> str:
        if not order:
            return DONE
        turn = len(transcript.steps)
        name = order[turn % len(order)]
        return encode_calls([Call(f"call_{turn + 1}_1", name, drawn_arguments(rng, functions[name], values))])

    return choose


def _places(text: str, name: str) -> Iterator[int]:
    for spelt in {name.lower(), name.lower().replace("_", " ")}:
        yield from (match.start() for match in re.finditer(rf"(?<!\w){re.escape(spelt)}(?!\w)", text))
