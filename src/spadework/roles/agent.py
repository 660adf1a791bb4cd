"""The agent plays one environment: a token-exact conversation between the policy and a sandboxed program.

The prompt is rendered once. What the model samples is kept as ids and log-probabilities, each observation is
appended as ids, and the stream that results is what is trained on. The agent sees observations and, in the hinted
arm, the hint; it never sees the program. Running many episodes at once is `plays`' work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spadework.config import AgentConfig
from spadework.engines.base import Cohort, ContextTooLong, Sample, SamplingParams, StopReason
from spadework.roles.conversation import Conversation, TextConversation, ToolConversation
from spadework.roles.episode import Arm, Episode, EpisodeEnd, Turn
from spadework.roles.prompts import PromptStyle
from spadework.roles.rendering import Rendering
from spadework.roles.tool_rendering import ToolRendering
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, InfrastructureFault, Outcome, Transition
from spadework.seeding import derive_seed

SMALLEST_REPLY_TOKENS = 16
"""With less room than this no reply is asked for: it could not hold an action."""


class ProgramInfo(Protocol):
    @property
    def max_turns(self) -> int | None: ...

    @property
    def uses_tools(self) -> bool: ...


class Play(Protocol):
    """One episode inside a sandbox. Every call may raise EnvironmentFault or InfrastructureFault."""

    async def step(self, action: str) -> Transition: ...

    async def close(self) -> None: ...


class OpenProgram(Protocol):
    """A program that a sandbox has loaded; it may be reset many times at once."""

    @property
    def info(self) -> ProgramInfo: ...

    async def reset(self, seed: int) -> tuple[Play, str]: ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class EpisodeRequest:
    """A play to make. ``hint`` is given in the hinted arm and only there."""

    environment_id: str
    source: str
    arm: Arm
    seed: int
    hint: str | None = None

    def __post_init__(self) -> None:
        if (self.hint is not None) != (self.arm is Arm.HINTED):
            raise ValueError(f"the {self.arm.value} arm of {self.environment_id} must have {_HINTS[self.arm]}")


_HINTS = {Arm.PLAIN: "no hint", Arm.HINTED: "a hint"}


@dataclass(frozen=True)
class Player:
    """The agent as all plays of a run share it: ``max_context_tokens`` is the model's, ``run_seed`` the run's.

    ``tools`` is needed if the configuration's action format is `tool_call`.
    """

    rendering: Rendering
    prompts: PromptStyle
    config: AgentConfig
    max_context_tokens: int
    run_seed: int
    tools: ToolRendering | None = None


async def play_episode(
    request: EpisodeRequest, program: OpenProgram, cohort: Cohort, member: int, player: Player
) -> Episode:
    """Play ``request`` to its end. Faults of the program or the host end it without a return and are not raised.

    Turn t is sampled with the seed that (run seed, environment, arm, seed, t) names. A reply that its budget cut
    ends the episode without another step, and a prompt that leaves no room for a reply is not part of the stream.
    The member does not leave the cohort here.
    """
    recording = _Recording(request)
    play: Play | None = None
    try:
        conversation = _conversation(program, player)
        play, observation = await program.reset(request.seed)
        limit = _turn_limit(program, player)
        return await _turns(recording, observation, play, conversation, limit, cohort, member, player)
    except EnvironmentFault as fault:
        return recording.fault(fault)
    except InfrastructureFault as fault:
        return recording.fault(fault)
    finally:
        if play is not None:
            await play.close()


def fault_episode(request: EpisodeRequest, fault: EnvironmentFault | InfrastructureFault) -> Episode:
    """The episode of a program that could not be opened."""
    return _Recording(request).fault(fault)


async def _turns(
    recording: _Recording,
    observation: str,
    play: Play,
    conversation: Conversation,
    turn_limit: int,
    cohort: Cohort,
    member: int,
    player: Player,
) -> Episode:
    config, rendering = player.config, player.rendering
    request = recording.request
    budget = min(config.max_episode_tokens, player.max_context_tokens)
    recording.observation = observation
    prompt_ids = conversation.first_prompt(observation, request.hint)
    for turn in range(turn_limit):
        room = min(config.max_reply_tokens, budget - len(prompt_ids))
        if room < min(SMALLEST_REPLY_TOKENS, config.max_reply_tokens):
            return recording.end(EpisodeEnd.CONTEXT_FULL, Outcome.OK)
        recording.prompt(prompt_ids)
        seed = derive_seed(player.run_seed, "episode", request.environment_id, request.arm.value, request.seed, turn)
        params = SamplingParams(max_tokens=room, stop_ids=rendering.stop_ids, seed=seed, temperature=config.temperature)
        try:
            sample = await cohort.sample(member, prompt_ids, params)
        except ContextTooLong:
            return recording.end(EpisodeEnd.CONTEXT_FULL, Outcome.OK)
        reply = rendering.reply_text(sample.token_ids_T)
        recording.reply(sample, reply)
        if sample.stop_reason is StopReason.LENGTH:
            end = EpisodeEnd.REPLY_CUT if room == config.max_reply_tokens else EpisodeEnd.CONTEXT_FULL
            return recording.end(end, Outcome.AGENT_FAULT)
        action = conversation.action(reply, turn)
        recording.act(action)
        transition = await play.step(action)
        recording.earn(transition)
        if transition.terminated:
            return recording.end(EpisodeEnd.TERMINATED, Outcome.OK)
        if transition.truncated:
            break
        if turn + 1 < turn_limit:
            prompt_ids = conversation.next_prompt(prompt_ids, sample.token_ids_T, transition.observation)
    return recording.end(EpisodeEnd.TURN_LIMIT, Outcome.OK)


def _conversation(program: OpenProgram, player: Player) -> Conversation:
    """Raises EnvironmentFault if the program is not of the kind that the configuration asks for."""
    format = player.config.action_format
    if program.info.uses_tools != (format == "tool_call"):
        kind = "a tool environment" if program.info.uses_tools else "no tool environment"
        raise EnvironmentFault(FaultKind.CONTRACT, f"the program is {kind}, and agent.action_format is {format!r}")
    if format == "tool_call":
        if player.tools is None:
            raise ValueError("a player whose action format is tool_call needs a tool rendering")
        return ToolConversation(player.tools, player.prompts)
    return TextConversation(player.rendering, player.prompts, format)


def _turn_limit(program: OpenProgram, player: Player) -> int:
    own = program.info.max_turns
    return player.config.max_turns if own is None else min(own, player.config.max_turns)


@dataclass
class _Recording:
    """The episode so far. A turn under way is kept when the program fails in it, so that its action can be seen."""

    request: EpisodeRequest
    turns: list[Turn] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    observation: str = ""

    def prompt(self, prompt_ids: Sequence[int]) -> None:
        """Take the ids that are new in ``prompt_ids``; those before them are the stream so far, to the token."""
        if list(prompt_ids[: len(self.ids)]) != self.ids:
            raise AssertionError("a prompt does not begin with the episode so far")
        new = prompt_ids[len(self.ids) :]
        self._append(new, False, [0.0] * len(new))

    def reply(self, sample: Sample, text: str) -> None:
        if len(sample.logprobs_T) != len(sample.token_ids_T):
            raise AssertionError("the engine gave another number of log-probabilities than of tokens")
        self._append(sample.token_ids_T, True, sample.logprobs_T)
        self.turns.append(Turn(self.observation, text, action="", reward=0.0))

    def act(self, action: str) -> None:
        turn = self.turns[-1]
        self.turns[-1] = Turn(turn.observation, turn.reply, action, turn.reward)

    def earn(self, transition: Transition) -> None:
        turn = self.turns[-1]
        self.turns[-1] = Turn(turn.observation, turn.reply, turn.action, transition.reward)
        self.observation = transition.observation

    def fault(self, fault: EnvironmentFault | InfrastructureFault) -> Episode:
        if isinstance(fault, EnvironmentFault):
            return self.end(EpisodeEnd.FAULT, Outcome.ENVIRONMENT_FAULT, fault.kind, fault.reason)
        return self.end(EpisodeEnd.FAULT, Outcome.INFRASTRUCTURE_FAULT, reason=str(fault))

    def end(self, end: EpisodeEnd, outcome: Outcome, kind: FaultKind | None = None, reason: str = "") -> Episode:
        return Episode(
            environment_id=self.request.environment_id,
            arm=self.request.arm,
            seed=self.request.seed,
            end=end,
            outcome=outcome,
            turns=tuple(self.turns),
            token_ids_T=tuple(self.ids),
            sampled_T=tuple(self.sampled),
            logprobs_T=tuple(self.logprobs),
            final_observation=self.observation,
            fault_kind=kind,
            fault_reason=reason,
        )

    def _append(self, ids: Sequence[int], sampled: bool, logprobs: Sequence[float]) -> None:
        self.ids += ids
        self.sampled += [sampled] * len(ids)
        self.logprobs += logprobs
