"""`contract`: the program starts on every seed and without one, and its first answers are what they must be.

Types, finite rewards, bounded observations and infos are checked by the sandbox in every call of every gate; what fails
first fails here. Tool environments must answer in their notation.
"""

from __future__ import annotations

from spadework.environment.gates.plays import scripted
from spadework.environment.gates.results import JSONValue
from spadework.environment.gates.tool_agents import decoded
from spadework.environment.gates.trial import Trial, require
from spadework.environment.tool_calls import decode_observation

PROBES = ("look", "1")

MAX_DECLARED_TURNS = 200


async def contract(trial: Trial) -> dict[str, JSONValue]:
    """Raises GateFailed, PlayFault or NotToolObservation."""
    require(
        trial.turn_limit <= MAX_DECLARED_TURNS,
        f"max_turns is {trial.turn_limit}; declare at most {MAX_DECLARED_TURNS}",
    )
    probed = await trial.play([(seed, scripted(PROBES)) for seed in (*trial.seeds, None)])
    openings: list[tuple[int | None, str]] = [*zip(trial.survey, await trial.survey_openings(), strict=True)]
    for seed, opening in [*openings, (None, probed[-1].first_observation)]:
        require(
            bool(opening.strip()),
            f"`reset` returned an empty observation on seed {seed}; it must tell the player what to do",
        )
        if trial.uses_tools:
            decode_observation(opening, first=True)
    if trial.uses_tools:
        for transcript in probed:
            decoded(transcript)
    return {"seeds": [*trial.seeds]}
