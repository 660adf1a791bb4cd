"""An episode as it is recorded: one play of an environment, by one arm, from one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from spadework.sandbox.outcomes import FaultKind, Outcome

ReturnKind = Literal["terminal", "best", "sum"]


class Arm(StrEnum):
    PLAIN = "plain"
    HINTED = "hinted"


class EpisodeEnd(StrEnum):
    """Why an episode ended."""

    TERMINATED = "terminated"
    """The environment ended it: won or lost."""
    TURN_LIMIT = "turn-limit"
    """The environment's or the run's turn budget was used up."""
    REPLY_CUT = "reply-cut"
    """A reply reached its token budget before its end; the environment was not stepped."""
    CONTEXT_FULL = "context-full"
    """The episode's token budget could not hold another turn."""
    FAULT = "fault"
    """The environment or the infrastructure failed; the episode has no return."""


@dataclass(frozen=True)
class Turn:
    """One reply and what the environment answered.

    ``observation`` is what the agent saw before replying. ``action`` is empty and ``reward`` is zero if the
    reply was cut, since the environment was then not stepped. ``policy_version`` counts the optimiser steps behind the
    weights that sampled the reply; None if they are not the run's, or if an earlier version kept the episode. If
    ``thinking_ended``, the thinking reached its budget: what ended it stands in the reply and was not sampled, and the
    answer is a second run of sampled tokens.
    """

    observation: str
    reply: str
    action: str
    reward: float
    policy_version: int | None = None
    thinking_ended: bool = False


@dataclass(frozen=True)
class Episode:
    """One play.

    ``token_ids_T`` is the whole stream: prompt, replies and observations. ``sampled_T`` marks the tokens that
    the model sampled, and ``logprobs_T`` holds the sampler's log-probability of each of those (0 elsewhere).
    """

    environment_id: str
    arm: Arm
    seed: int
    end: EpisodeEnd
    outcome: Outcome
    turns: tuple[Turn, ...]
    token_ids_T: tuple[int, ...]
    sampled_T: tuple[bool, ...]
    logprobs_T: tuple[float, ...]
    final_observation: str = ""
    fault_kind: FaultKind | None = None
    fault_reason: str = ""

    @property
    def scored(self) -> bool:
        """Whether the episode has a return: faults of the environment or the host have none."""
        return self.outcome in (Outcome.OK, Outcome.AGENT_FAULT)


def episode_return(episode: Episode, kind: ReturnKind) -> float:
    """What the episode is worth to the learner, in [-1, 1].

    `terminal` (the paper): the last reward if the environment terminated, otherwise 0. `best`: the largest
    reward seen, at least 0 unless the episode lost points only. `sum`: the sum of rewards. All are clipped.

    Raises ValueError for an episode without a return.
    """
    if not episode.scored:
        raise ValueError(f"episode {episode.environment_id}/{episode.seed} has no return: {episode.fault_reason}")
    rewards: Sequence[float] = [turn.reward for turn in episode.turns]
    match kind:
        case "terminal":
            value = rewards[-1] if rewards and episode.end is EpisodeEnd.TERMINATED else 0.0
        case "best":
            value = max(rewards, default=0.0)
        case "sum":
            value = sum(rewards)
    return max(-1.0, min(1.0, value))
