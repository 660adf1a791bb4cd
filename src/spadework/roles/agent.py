"""The agent plays one environment: a token-exact conversation between the policy and a sandboxed program.

The prompt is rendered once. What the model samples is kept as ids and log-probabilities, each observation is
appended as ids, and the stream that results is what is trained on; `text_agent` plays by the same rules for a model
that deals in texts. The agent sees observations and, in the hinted arm, the hint; it never sees the program. Running
many episodes at once is `plays`' work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from spadework.config import AgentConfig
from spadework.engines.base import Cohort, ContextTooLong, Sample, SamplingParams, StopReason
from spadework.environment.actions import ActionFormat
from spadework.roles.conversation import Conversation, TextConversation, ToolConversation
from spadework.roles.episode import Arm, Episode, EpisodeEnd, Turn
from spadework.roles.prompts import PromptStyle
from spadework.roles.rendering import Ids, Rendering
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


@dataclass(frozen=True)
class Said:
    """A reply to an observation, or why there is none. ``end`` says that the episode is over with it."""

    text: str | None
    end: EpisodeEnd | None = None
    outcome: Outcome = Outcome.OK
    thinking_ended: bool = False


class Seat(Protocol):
    """Whoever plays one episode, in tokens or in texts."""

    async def reply(self, observation: str, turn: int) -> Said:
        """``turn`` counts from 0. May raise EnvironmentFault (a bad observation) or InfrastructureFault."""
        ...

    def action(self, reply: str, turn: int) -> str:
        """What the environment is stepped with."""
        ...


async def play_episode(
    request: EpisodeRequest, program: OpenProgram, cohort: Cohort, member: int, player: Player
) -> Episode:
    """Play ``request`` to its end. Faults of the program or the host end it without a return and are not raised.

    Turn t is sampled with the seed that (run seed, environment, arm, seed, t) names. Thinking that reaches a budget of
    its own is ended by tokens that were not sampled, and the answer is sampled behind them. A reply that its budget
    cut ends the episode without another step, and a prompt that leaves no room for a reply is not part of the stream.
    The member does not leave the cohort here.
    """
    recording = Recording(request)

    def sit() -> Seat:
        return _TokenSeat(request, recording.stream, _conversation(program, player), cohort, member, player)

    return await play_out(recording, program, sit, player.config.max_turns)


async def play_out(recording: Recording, program: OpenProgram, sit: Callable[[], Seat], max_turns: int) -> Episode:
    """Play the request of ``recording`` to its end: the rules of an episode, whoever plays.

    Faults of the program or the host end it without a return and are not raised. ``sit`` may raise EnvironmentFault.
    """
    play: Play | None = None
    try:
        seat = sit()
        play, observation = await program.reset(recording.request.seed)
        own = program.info.max_turns
        return await _turns(recording, observation, play, seat, max_turns if own is None else min(own, max_turns))
    except EnvironmentFault as fault:
        return recording.fault(fault)
    except InfrastructureFault as fault:
        return recording.fault(fault)
    finally:
        if play is not None:
            await play.close()


def fault_episode(request: EpisodeRequest, fault: EnvironmentFault | InfrastructureFault) -> Episode:
    """The episode of a program that could not be opened."""
    return Recording(request).fault(fault)


async def _turns(recording: Recording, observation: str, play: Play, seat: Seat, turn_limit: int) -> Episode:
    recording.observation = observation
    for turn in range(turn_limit):
        said = await seat.reply(recording.observation, turn)
        if said.text is not None:
            recording.reply(said.text, said.thinking_ended)
        if said.end is not None or said.text is None:
            return recording.end(said.end or EpisodeEnd.CONTEXT_FULL, said.outcome)
        action = seat.action(said.text, turn)
        recording.act(action)
        transition = await play.step(action)
        recording.earn(transition)
        if transition.terminated:
            return recording.end(EpisodeEnd.TERMINATED, Outcome.OK)
        if transition.truncated:
            break
    return recording.end(EpisodeEnd.TURN_LIMIT, Outcome.OK)


@dataclass
class _TokenSeat:
    """The policy: what it samples is kept in ``stream`` as ids, and what it is shown is appended to them."""

    request: EpisodeRequest
    stream: Stream
    conversation: Conversation
    cohort: Cohort
    member: int
    player: Player
    reply_ids: Ids = ()
    """All that stands behind the last prompt."""

    async def reply(self, observation: str, turn: int) -> Said:
        config, request = self.player.config, self.request
        if turn == 0:
            prompt_ids = self.conversation.first_prompt(observation, request.hint)
        else:
            before = self.stream.ids[: len(self.stream.ids) - len(self.reply_ids)]
            prompt_ids = self.conversation.next_prompt(before, self.reply_ids, observation)
        room = min(config.max_reply_tokens, self._budget - len(prompt_ids))
        if room < min(SMALLEST_REPLY_TOKENS, config.max_reply_tokens):
            return Said(None, EpisodeEnd.CONTEXT_FULL)
        thinking = min(config.max_thinking_tokens or room, room)
        try:
            sample = await self._sample(prompt_ids, thinking, "episode", turn)
        except ContextTooLong:
            return Said(None, EpisodeEnd.CONTEXT_FULL)
        self.reply_ids = sample.token_ids_T
        if sample.stop_reason is StopReason.STOP:
            return Said(self._text)
        cut = EpisodeEnd.REPLY_CUT if room == config.max_reply_tokens else EpisodeEnd.CONTEXT_FULL
        if thinking == room:
            return Said(self._text, cut, Outcome.AGENT_FAULT)
        return await self._answer(prompt_ids, room - thinking, cut, turn)

    async def _answer(self, prompt_ids: Ids, room: int, cut: EpisodeEnd, turn: int) -> Said:
        """The rest of a reply behind the thinking in it, which ends here at the latest."""
        ending = self.conversation.thinking_end(self.reply_ids)
        before = (*prompt_ids, *self.reply_ids, *(ending or ()))
        left = self._budget - len(before)
        full = Said(self._text, EpisodeEnd.CONTEXT_FULL, Outcome.AGENT_FAULT)
        if left < 1:
            return full
        try:
            sample = await self._sample(before, min(room, left), "answer", turn)
        except ContextTooLong:
            return full
        self.reply_ids = (*self.reply_ids, *(ending or ()), *sample.token_ids_T)
        if sample.stop_reason is StopReason.STOP:
            return Said(self._text, thinking_ended=ending is not None)
        end = EpisodeEnd.CONTEXT_FULL if left < room else cut
        return Said(self._text, end, Outcome.AGENT_FAULT, ending is not None)

    async def _sample(self, before: Ids, room: int, what: str, turn: int) -> Sample:
        """Sample behind ``before`` and take all of it into the stream."""
        request, player = self.request, self.player
        names = (request.environment_id, request.arm.value, request.seed, turn)
        params = SamplingParams(
            max_tokens=room,
            stop_ids=player.rendering.stop_ids,
            seed=derive_seed(player.run_seed, what, *names),
            temperature=player.config.temperature,
        )
        sample = await self.cohort.sample(self.member, before, params)
        self.stream.prompt(before)
        self.stream.reply(sample)
        return sample

    @property
    def _budget(self) -> int:
        return min(self.player.config.max_episode_tokens, self.player.max_context_tokens)

    @property
    def _text(self) -> str:
        return self.conversation.reply_text(self.reply_ids)

    def action(self, reply: str, turn: int) -> str:
        return self.conversation.action(reply, turn)


def require_kind(program: OpenProgram, format: ActionFormat) -> None:
    """Raises EnvironmentFault if the program is not of the kind that plays in ``format`` need."""
    if program.info.uses_tools != (format == "tool_call"):
        kind = "a tool environment" if program.info.uses_tools else "no tool environment"
        raise EnvironmentFault(FaultKind.CONTRACT, f"the program is {kind}, and agent.action_format is {format!r}")


def _conversation(program: OpenProgram, player: Player) -> Conversation:
    """Raises EnvironmentFault if the program is not of the kind that the configuration asks for."""
    format = player.config.action_format
    require_kind(program, format)
    if format == "tool_call":
        if player.tools is None:
            raise ValueError("a player whose action format is tool_call needs a tool rendering")
        return ToolConversation(player.tools, player.prompts)
    return TextConversation(player.rendering, player.prompts, format)


@dataclass
class Stream:
    """The tokens of an episode so far; empty where nobody deals in tokens.

    ``policy_version`` is that of the weights that sampled the last of them.
    """

    ids: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    policy_version: int | None = None

    def prompt(self, prompt_ids: Sequence[int]) -> None:
        """Take the ids that are new in ``prompt_ids``; those before them are the stream so far, to the token."""
        if list(prompt_ids[: len(self.ids)]) != self.ids:
            raise AssertionError("a prompt does not begin with the episode so far")
        new = prompt_ids[len(self.ids) :]
        self._append(new, False, [0.0] * len(new))

    def reply(self, sample: Sample) -> None:
        if len(sample.logprobs_T) != len(sample.token_ids_T):
            raise AssertionError("the engine gave another number of log-probabilities than of tokens")
        self._append(sample.token_ids_T, True, sample.logprobs_T)
        self.policy_version = sample.policy_version

    def _append(self, ids: Sequence[int], sampled: bool, logprobs: Sequence[float]) -> None:
        self.ids += ids
        self.sampled += [sampled] * len(ids)
        self.logprobs += logprobs


@dataclass
class Recording:
    """The episode so far. A turn under way is kept when the program fails in it, so that its action can be seen."""

    request: EpisodeRequest
    turns: list[Turn] = field(default_factory=list)
    stream: Stream = field(default_factory=Stream)
    observation: str = ""

    def reply(self, text: str, thinking_ended: bool) -> None:
        version = self.stream.policy_version
        self.turns.append(
            Turn(
                self.observation,
                text,
                action="",
                reward=0.0,
                policy_version=version,
                thinking_ended=thinking_ended,
            )
        )

    def act(self, action: str) -> None:
        self.turns[-1] = replace(self.turns[-1], action=action)

    def earn(self, transition: Transition) -> None:
        self.turns[-1] = replace(self.turns[-1], reward=transition.reward)
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
            token_ids_T=tuple(self.stream.ids),
            sampled_T=tuple(self.stream.sampled),
            logprobs_T=tuple(self.stream.logprobs),
            final_observation=self.observation,
            fault_kind=kind,
            fault_reason=reason,
        )
