"""An agent at an endpoint plays: the rules of an episode are those of `agent.play_out`, in messages instead of tokens.

It is measured and never trained, so its episodes have no tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spadework.config import AgentConfig
from spadework.engines.chat import ChatModel, ChatRequest, PromptTooLong
from spadework.environment.actions import ActionFormat
from spadework.roles.agent import (
    SMALLEST_REPLY_TOKENS,
    EpisodeRequest,
    OpenProgram,
    Recording,
    Said,
    Seat,
    play_out,
    require_kind,
)
from spadework.roles.episode import Episode, EpisodeEnd
from spadework.roles.plays import Played, ProgramOpener, play_together
from spadework.roles.prompts import PromptStyle
from spadework.roles.served_conversation import ServedConversation, served_conversation
from spadework.sandbox.outcomes import Outcome
from spadework.seeding import derive_seed


@dataclass(frozen=True)
class TextPlayer:
    """The agent as all plays share it; ``format`` is how its replies hold an action."""

    model: ChatModel
    prompts: PromptStyle
    config: AgentConfig
    format: ActionFormat
    run_seed: int


async def play_all_texts(requests: Sequence[EpisodeRequest], sandbox: ProgramOpener, player: TextPlayer) -> Played:
    """Play every request at once; see `play_together`. Raises EndpointError and BudgetSpent."""

    async def play(request: EpisodeRequest, program: OpenProgram, member: int) -> Episode:
        return await play_text_episode(request, program, player)

    return await play_together(requests, sandbox, play, lambda member: None)


async def play_text_episode(request: EpisodeRequest, program: OpenProgram, player: TextPlayer) -> Episode:
    """Play ``request`` to its end, like `agent.play_episode`. Raises EndpointError and BudgetSpent."""

    def sit() -> Seat:
        require_kind(program, player.format)
        return _TextSeat(request, player, served_conversation(player.prompts, player.format))

    return await play_out(Recording(request), program, sit, player.config.max_turns)


@dataclass
class _TextSeat:
    """``used_tokens`` is what the server counted for the conversation up to the last reply; 0 if it does not say."""

    request: EpisodeRequest
    player: TextPlayer
    conversation: ServedConversation
    used_tokens: int = 0

    async def reply(self, observation: str, turn: int) -> Said:
        player, request, config = self.player, self.request, self.player.config
        room = min(config.max_reply_tokens, config.max_episode_tokens - self.used_tokens)
        if room < min(SMALLEST_REPLY_TOKENS, config.max_reply_tokens):
            return Said(None, EpisodeEnd.CONTEXT_FULL)
        messages = tuple(self.conversation.messages(observation, request.hint, turn))
        names = (request.environment_id, request.arm.value, request.seed, turn)
        draw = derive_seed(player.run_seed, "episode", *names)
        try:
            reply = await player.model.reply(
                ChatRequest(messages, room, config.temperature, draw, self.conversation.tools)
            )
        except PromptTooLong:
            if turn == 0:
                raise  # nothing was said yet: the budget is wrong, and not the play
            return Said(None, EpisodeEnd.CONTEXT_FULL)
        text = self.conversation.take(reply, turn)
        if reply.usage is not None:
            self.used_tokens = reply.usage.tokens
        if reply.cut:
            end = EpisodeEnd.REPLY_CUT if room == config.max_reply_tokens else EpisodeEnd.CONTEXT_FULL
            return Said(text, end, Outcome.AGENT_FAULT)
        return Said(text)

    def action(self, reply: str, turn: int) -> str:
        return self.conversation.action()
