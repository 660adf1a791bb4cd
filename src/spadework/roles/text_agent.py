"""An agent at an endpoint plays: the rules of an episode are those of `agent.play_out`, in messages instead of tokens.

It is measured and never trained, so its episodes have no tokens. It plays games; calls of tools are not spoken here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from spadework.config import AgentConfig
from spadework.engines.chat import ChatModel, ChatReply, ChatRequest, PromptTooLong, as_chat
from spadework.environment.actions import TextFormat, parse_action
from spadework.roles.agent import (
    SMALLEST_REPLY_TOKENS,
    EpisodeRequest,
    OpenProgram,
    Recording,
    Said,
    Seat,
    play_out,
)
from spadework.roles.episode import Episode, EpisodeEnd
from spadework.roles.plays import Played, ProgramOpener, play_together
from spadework.roles.prompts import PromptStyle
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, Outcome
from spadework.seeding import derive_seed


@dataclass(frozen=True)
class TextPlayer:
    """The agent as all plays share it; ``format`` is how its replies hold an action."""

    model: ChatModel
    prompts: PromptStyle
    config: AgentConfig
    format: TextFormat
    run_seed: int


async def play_all_texts(requests: Sequence[EpisodeRequest], sandbox: ProgramOpener, player: TextPlayer) -> Played:
    """Play every request at once; see `play_together`. Raises EndpointError and BudgetSpent."""

    async def play(request: EpisodeRequest, program: OpenProgram, member: int) -> Episode:
        return await play_text_episode(request, program, player)

    return await play_together(requests, sandbox, play, lambda member: None)


async def play_text_episode(request: EpisodeRequest, program: OpenProgram, player: TextPlayer) -> Episode:
    """Play ``request`` to its end, like `agent.play_episode`. Raises EndpointError and BudgetSpent."""

    def sit() -> Seat:
        if program.info.uses_tools:
            raise EnvironmentFault(FaultKind.CONTRACT, "the program is a tool environment, which no endpoint can play")
        return _TextSeat(request, player)

    return await play_out(Recording(request), program, sit, player.config.max_turns)


@dataclass
class _TextSeat:
    """``used_tokens`` is what the server counted for the conversation up to the last reply; 0 if it does not say."""

    request: EpisodeRequest
    player: TextPlayer
    said: list[tuple[str, str]] = field(default_factory=list)
    used_tokens: int = 0

    async def reply(self, observation: str, turn: int) -> Said:
        player, request = self.player, self.request
        config, prompts = player.config, player.prompts
        if turn == 0:
            new = prompts.agent_messages(observation, request.hint, player.format)
        else:
            new = [prompts.observation_message(observation)]
        room = min(config.max_reply_tokens, config.max_episode_tokens - self.used_tokens)
        if room < min(SMALLEST_REPLY_TOKENS, config.max_reply_tokens):
            return Said(None, EpisodeEnd.CONTEXT_FULL)
        self.said += [(message.role, message.content) for message in new]
        names = (request.environment_id, request.arm.value, request.seed, turn)
        draw = derive_seed(player.run_seed, "episode", *names)
        try:
            reply = await player.model.reply(ChatRequest(as_chat(self.said), room, config.temperature, draw))
        except PromptTooLong:
            if turn == 0:
                raise  # nothing was said yet: the budget is wrong, and not the play
            return Said(None, EpisodeEnd.CONTEXT_FULL)
        self._note(reply)
        if reply.cut:
            end = EpisodeEnd.REPLY_CUT if room == config.max_reply_tokens else EpisodeEnd.CONTEXT_FULL
            return Said(reply.text, end, Outcome.AGENT_FAULT)
        return Said(reply.text)

    def action(self, reply: str, turn: int) -> str:
        return parse_action(reply, self.player.format).action

    def _note(self, reply: ChatReply) -> None:
        self.said.append(("assistant", reply.text))
        if reply.usage is not None:
            self.used_tokens = reply.usage.tokens
