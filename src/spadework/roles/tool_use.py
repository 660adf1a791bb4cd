"""What an episode's record says of its calls."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from spadework.environment.tool_calls import NotToolObservation, decode_observation, read_calls
from spadework.roles.episode import Episode


@dataclass(frozen=True)
class CallCounts:
    """``malformed`` calls could not be read; ``refused`` ones named no tool or did not fit its schema."""

    calls: int = 0
    malformed: int = 0
    refused: int = 0


def call_counts(episode: Episode) -> CallCounts | None:
    """None if the episode's program is no tool environment."""
    if not episode.turns or not _opens_with_tools(episode.turns[0].observation):
        return None
    calls = [call for turn in episode.turns for call in read_calls(turn.action)]
    malformed = sum(1 for call in calls if call.problem)
    shown = [*(turn.observation for turn in episode.turns[1:]), episode.final_observation]
    unexecuted = sum(_unexecuted(observation) for observation in shown)
    return CallCounts(len(calls), malformed, max(0, unexecuted - malformed))


def trained_tokens(episode: Episode, train_malformed_calls: bool) -> tuple[bool, ...]:
    """``sampled_T`` without the replies that hold a malformed call, unless those are trained as well."""
    if train_malformed_calls or call_counts(episode) is None:
        return episode.sampled_T
    left_out = [
        any(call.problem for call in read_calls(turn.action))
        for turn in episode.turns
        for _ in range(2 if turn.thinking_ended else 1)
    ]
    marks: list[bool] = []
    run_of_sampled = -1
    for sampled, run in groupby(episode.sampled_T):
        run_of_sampled += sampled
        marks += [sampled and not left_out[run_of_sampled]] * len(list(run))
    return tuple(marks)


def _opens_with_tools(observation: str) -> bool:
    if not observation.startswith('{"messages":'):
        return False
    try:
        decode_observation(observation, first=True)
    except NotToolObservation:
        return False
    return True


def _unexecuted(observation: str) -> int:
    try:
        return sum(not message.executed for message in decode_observation(observation).messages)
    except NotToolObservation:
        return 0  # the program's fault, which ended the episode
