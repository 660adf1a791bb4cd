"""What frozen roles need of a model that is asked in messages and answers in text.

Nothing is trained on what crosses this boundary, so no token ids do. What can go wrong is typed: a reply is a reply,
and everything else is one of the exceptions here, whose messages are sentences for people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from spadework.sandbox.outcomes import InfrastructureFault


@dataclass(frozen=True)
class Usage:
    """Tokens as the server counted them."""

    prompt_tokens: int = 0
    reply_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.reply_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens + other.prompt_tokens, self.reply_tokens + other.reply_tokens)

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens - other.prompt_tokens, self.reply_tokens - other.reply_tokens)


@dataclass(frozen=True)
class ChatRequest:
    """``messages`` are those of the API. ``draw`` tells requests apart that ask the same, and seeds the reply.

    ``tools`` are function schemas that the model may call; without any its reply is a text.
    """

    messages: tuple[Mapping[str, Any], ...]
    max_tokens: int
    temperature: float
    draw: int
    tools: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class ChatCall:
    """A call as the server gave it: ``arguments`` are what the model wrote, JSON or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ChatReply:
    """``cut`` if the reply reached its token budget. ``usage`` is None if the server does not report it."""

    text: str
    cut: bool
    usage: Usage | None
    calls: tuple[ChatCall, ...] = ()


class ChatModel(Protocol):
    """Answers requests; many may be under way at once."""

    @property
    def name(self) -> str:
        """The model and where it is served, for reports."""
        ...

    async def reply(self, request: ChatRequest) -> ChatReply:
        """Raises PromptTooLong, NoReply, EndpointRefused, EndpointUnavailable and BudgetSpent."""
        ...


class EndpointError(Exception):
    """The endpoint cannot be used; one sentence that names it, the model and the remedy."""


class EndpointRefused(EndpointError):
    """The same request would be refused again: key, model, address or settings are wrong."""


class EndpointUnavailable(EndpointError):
    """Every try failed in a way that may pass."""


class PromptTooLong(EndpointError):
    """The model's context does not hold the prompt and the reply's budget."""


class NoReply(InfrastructureFault):
    """The endpoint works and gave no reply to this one request: nobody's fault, and worth nothing."""


class BudgetSpent(Exception):
    """The next reply might exceed a budget. ``setting`` is the one that limits it, the message says where it stands."""

    def __init__(self, setting: str, state: str) -> None:
        super().__init__(f"{setting} is used up: {state}")
        self.setting = setting


def as_chat(messages: Sequence[tuple[str, str]]) -> tuple[Mapping[str, Any], ...]:
    """Messages from pairs of role and content, with lone surrogates spelt out: no server takes them."""
    return tuple({"role": role, "content": printable(content)} for role, content in messages)


def printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
