"""Asking somebody to write: messages go in, a text comes out.

The roles know this protocol and not who is behind it. `PolicyWriter` is the model in training, and its replies can be
trained on; `ChatWriter` is a frozen model at an endpoint, and nothing of it can.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from spadework.engines.base import Cohort, ContextTooLong, Engine, Sample, SamplingParams, StopReason
from spadework.engines.chat import ChatModel, ChatRequest, PromptTooLong, Usage, as_chat
from spadework.roles.messages import Message
from spadework.roles.prompts import PromptStyle
from spadework.roles.rendering import Ids, Rendering

SMALLEST_TEXT_TOKENS = 32
"""With less room than this nothing is asked for: it could hold neither a program nor a hint."""


class NoRoom(Exception):
    """The prompt leaves no room for a reply; ``prompt_tokens`` is 0 where nobody counted them."""

    def __init__(self, prompt_tokens: int, reason: str) -> None:
        super().__init__(reason)
        self.prompt_tokens = prompt_tokens


@dataclass(frozen=True)
class Completion:
    """One prompt and its reply: ``sampled_T`` marks the reply, ``logprobs_T`` is 0 elsewhere."""

    token_ids_T: tuple[int, ...]
    sampled_T: tuple[bool, ...]
    logprobs_T: tuple[float, ...]
    policy_version: int

    @staticmethod
    def of(prompt_ids: Sequence[int], sample: Sample) -> Completion:
        return Completion(
            token_ids_T=(*prompt_ids, *sample.token_ids_T),
            sampled_T=(False,) * len(prompt_ids) + (True,) * len(sample.token_ids_T),
            logprobs_T=(0.0,) * len(prompt_ids) + sample.logprobs_T,
            policy_version=sample.policy_version,
        )


@dataclass(frozen=True)
class Wanted:
    """What a reply may be. ``draw`` names it: equal conversations with equal draws get equal replies."""

    max_tokens: int
    temperature: float
    draw: int


@dataclass(frozen=True)
class Written:
    """A reply. ``cut_at`` is the token budget that cut it, None if it is whole. Without ``completion`` it is frozen."""

    text: str
    cut_at: int | None
    prompt_tokens: int
    reply_tokens: int
    completion: Completion | None


class Dialogue(Protocol):
    """One conversation, which starts empty."""

    async def ask(self, new: Sequence[Message], wanted: Wanted) -> Written:
        """Say ``new`` and get a reply; both stay in the conversation.

        Raises NoRoom, InfrastructureFault if there is no reply, EndpointError and BudgetSpent.
        """
        ...


class Session(Protocol):
    """Writers asked at the same time; members are numbered from 0."""

    def dialogue(self, member: int) -> Dialogue:
        """A new conversation of ``member``, which holds one at a time."""
        ...

    def leave(self, member: int) -> None:
        """The member will ask for nothing more. Every member must leave, whatever happened to it."""
        ...


class Writer(Protocol):
    """``prompts`` are the words in which it is asked."""

    @property
    def prompts(self) -> PromptStyle: ...

    def session(self, size: int) -> AbstractAsyncContextManager[Session]: ...


@dataclass(frozen=True)
class PolicyWriter:
    """The model in training. ``max_context_tokens`` is what it can hold."""

    engine: Engine
    rendering: Rendering
    prompts: PromptStyle
    max_context_tokens: int

    @asynccontextmanager
    async def session(self, size: int) -> AsyncIterator[Session]:
        async with self.engine.cohort(size) as cohort:
            yield _PolicySession(self, cohort)

    def room(self, prompt_ids: Ids, wanted: int) -> int:
        """Tokens that a reply to ``prompt_ids`` may have: ``wanted`` or what the context leaves. Raises NoRoom."""
        room = min(wanted, self.max_context_tokens - len(prompt_ids))
        if room < min(SMALLEST_TEXT_TOKENS, wanted):
            raise self.no_room(prompt_ids)
        return room

    def no_room(self, prompt_ids: Ids) -> NoRoom:
        tokens = len(prompt_ids)
        return NoRoom(
            tokens,
            f"the prompt of {tokens} tokens leaves no room for a reply in a context of {self.max_context_tokens}",
        )


@dataclass(frozen=True)
class _PolicySession:
    writer: PolicyWriter
    cohort: Cohort

    def dialogue(self, member: int) -> Dialogue:
        return _PolicyDialogue(self.writer, self.cohort, member)

    def leave(self, member: int) -> None:
        self.cohort.leave(member)


@dataclass
class _PolicyDialogue:
    """Token-exact: what was sampled stays as it was."""

    writer: PolicyWriter
    cohort: Cohort
    member: int
    prompt_ids: Ids = ()
    sampled_ids: Ids = ()

    async def ask(self, new: Sequence[Message], wanted: Wanted) -> Written:
        writer, rendering = self.writer, self.writer.rendering
        if self.prompt_ids:
            self.prompt_ids = rendering.next_prompt(self.prompt_ids, self.sampled_ids, new)
        else:
            self.prompt_ids = rendering.first_prompt(new)
        room = writer.room(self.prompt_ids, wanted.max_tokens)
        params = SamplingParams(room, rendering.stop_ids, wanted.draw, wanted.temperature)
        try:
            sample = await self.cohort.sample(self.member, self.prompt_ids, params)
        except ContextTooLong:
            raise writer.no_room(self.prompt_ids) from None
        self.sampled_ids = sample.token_ids_T
        return Written(
            text=rendering.reply_text(sample.token_ids_T),
            cut_at=room if sample.stop_reason is StopReason.LENGTH else None,
            prompt_tokens=len(self.prompt_ids),
            reply_tokens=len(sample.token_ids_T),
            completion=Completion.of(self.prompt_ids, sample),
        )


@dataclass(frozen=True)
class ChatWriter:
    """A frozen model at an endpoint. It is asked by all members at once, and by none for the sake of another."""

    model: ChatModel
    prompts: PromptStyle

    @asynccontextmanager
    async def session(self, size: int) -> AsyncIterator[Session]:
        yield _ChatSession(self.model)


@dataclass(frozen=True)
class _ChatSession:
    model: ChatModel

    def dialogue(self, member: int) -> Dialogue:
        return ChatDialogue(self.model)

    def leave(self, member: int) -> None:
        """Nobody waits for the member."""


class ChatDialogue:
    """Messages and replies in turn."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._said: list[tuple[str, str]] = []

    async def ask(self, new: Sequence[Message], wanted: Wanted) -> Written:
        self._said += [(message.role, message.content) for message in new]
        request = ChatRequest(as_chat(self._said), wanted.max_tokens, wanted.temperature, wanted.draw)
        try:
            reply = await self._model.reply(request)
        except PromptTooLong as long:
            raise NoRoom(0, str(long)) from None
        self._said.append(("assistant", reply.text))
        usage = reply.usage or Usage()
        return Written(
            text=reply.text,
            cut_at=wanted.max_tokens if reply.cut else None,
            prompt_tokens=usage.prompt_tokens,
            reply_tokens=usage.reply_tokens,
            completion=None,
        )
