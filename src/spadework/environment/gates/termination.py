"""`termination`: whatever the agent says, the program ends the episode within its turns and never crashes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from spadework.environment.gates.plays import Choose, Transcript, quote, repeated, together
from spadework.environment.gates.results import JSONValue
from spadework.environment.gates.scripted import JUNK, malformed
from spadework.environment.gates.tool_agents import decoded, odd_calls
from spadework.environment.gates.trial import Trial, require


async def termination(trial: Trial) -> dict[str, JSONValue]:
    """Raises GateFailed or PlayFault."""
    junk = [*JUNK]
    if trial.uses_tools:
        (play,) = await trial.play([(trial.seeds[0], repeated(("",)))])
        junk += odd_calls(decoded(play)[0].tools)
    elif await trial.knows_solutions(trial.seeds):
        junk += malformed([action for solution in await trial.solutions(trial.seeds) for action in solution])
    count = len(trial.seeds)
    jobs: list[tuple[str, Callable[[], Awaitable[list[Transcript]]]]] = [
        ("junk actions", partial(_say_all, trial, seed, junk[index::count])) for index, seed in enumerate(trial.seeds)
    ]
    jobs += [
        ("random actions", lambda: trial.random_plays(trial.seeds, 1)),
        ("empty actions", lambda: trial.play([(seed, repeated(("",))) for seed in trial.seeds])),
    ]
    played = await together(lambda job: job[1](), jobs)
    named = [(name, transcript) for (name, _), plays in zip(jobs, played, strict=True) for transcript in plays]
    for name, transcript in named:
        require(
            transcript.ended,
            f"the episode did not end within {trial.turn_limit} turns of {name} (seed {transcript.seed}, last "
            f"action {quote(transcript.actions[-1])}); count turns in `step` and set truncated at max_turns",
        )
    return {"junk_actions": len(junk), "longest_play": max(len(transcript.steps) for _, transcript in named)}


async def _say_all(trial: Trial, seed: int, junk: Sequence[str]) -> list[Transcript]:
    """Play again and again until each junk action was said; every play goes on to its end."""
    plays: list[Transcript] = []
    said = 0
    while said < len(junk):
        (transcript,) = await trial.play([(seed, _from(junk, said))])
        plays.append(transcript)
        said += len(transcript.steps)
        if not transcript.ended:
            break
    return plays


def _from(junk: Sequence[str], start: int) -> Choose:
    return lambda transcript: junk[(start + len(transcript.steps)) % len(junk)]
