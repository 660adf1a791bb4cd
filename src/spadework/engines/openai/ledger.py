"""What was used at the endpoint, what it cost, and whether the next reply may still be asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from spadework.config import EndpointConfig
from spadework.engines.chat import BudgetSpent, ChatReply, ChatRequest, Usage

BYTES_PER_TOKEN = 3
"""Of a prompt, until its tokens are known. Text in most languages has more bytes in a token."""
_MESSAGE_TOKENS = 8
"""What a chat template adds to one message, about."""
_MILLION = 1e6


@dataclass
class Tally:
    """Of the replies used since the last reading, whether they were paid for now or in an earlier start of the run."""

    replies: int = 0
    repeated: int = 0
    retries: int = 0
    unmetered: int = 0
    usage: Usage = field(default_factory=Usage)


class Ledger:
    """Keeps to `endpoint.budget` and `endpoint.budget_tokens`.

    A request reserves what it may use at most. One that does not fit waits until those under way are accounted for;
    if it does not fit then, no request is under way any more, and the budget is spent.
    """

    def __init__(self, config: EndpointConfig, paid: Usage) -> None:
        """``paid`` is what the run has used so far."""
        self.paid = paid
        self.tally = Tally()
        self._config = config
        self._reserved = Usage()
        self._under_way = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def reserved(self, request: ChatRequest) -> AsyncIterator[None]:
        """The request is under way inside. Raises BudgetSpent."""
        most = most_usage(request)
        async with self._changed:
            while (setting := self._exceeded(most)) is not None:
                if not self._under_way:
                    raise BudgetSpent(setting, self._state(setting, most))
                await self._changed.wait()
            self._reserved += most
            self._under_way += 1
        try:
            yield
        finally:
            async with self._changed:
                self._reserved -= most
                self._under_way -= 1
                self._changed.notify_all()

    def used(self, reply: ChatReply, *, repeated: bool) -> None:
        """Note a reply that a role was given; one that is not ``repeated`` was paid for just now."""
        usage = reply.usage or Usage()
        self.tally.replies += 1
        self.tally.repeated += repeated
        self.tally.unmetered += reply.usage is None
        self.tally.usage += usage
        if not repeated:
            self.paid += usage

    def cost(self, usage: Usage) -> float:
        """In the currency of the prices."""
        config = self._config
        dear = (
            usage.prompt_tokens * config.price_per_million_input + usage.reply_tokens * config.price_per_million_output
        )
        return dear / _MILLION

    def readings(self) -> dict[str, float]:
        """Metrics since the last call."""
        tally, self.tally = self.tally, Tally()
        found: dict[str, float] = {
            "endpoint/replies": tally.replies,
            "endpoint/repeated": tally.repeated,
            "endpoint/retries": tally.retries,
            "endpoint/unmetered": tally.unmetered,
            "endpoint/prompt_tokens": tally.usage.prompt_tokens,
            "endpoint/reply_tokens": tally.usage.reply_tokens,
        }
        if self._config.price_per_million_input or self._config.price_per_million_output:
            found |= {"endpoint/cost": self.cost(tally.usage), "endpoint/cost_of_run": self.cost(self.paid)}
        return found

    def account(self) -> str:
        """What was used, in words."""
        used = f"{self.paid.prompt_tokens} tokens of prompts and {self.paid.reply_tokens} of replies"
        return f"{used}, cost {self.cost(self.paid):.4g}" if self.cost(self.paid) else used

    @property
    def has_budget(self) -> bool:
        return self._config.budget is not None or self._config.budget_tokens is not None

    def _exceeded(self, most: Usage) -> str | None:
        """The budget that ``most`` might exceed."""
        config, then = self._config, self.paid + self._reserved + most
        if config.budget is not None and self.cost(then) > config.budget:
            return "endpoint.budget"
        if config.budget_tokens is not None and then.tokens > config.budget_tokens:
            return "endpoint.budget_tokens"
        return None

    def _state(self, setting: str, most: Usage) -> str:
        if setting == "endpoint.budget":
            spent, limit, more = f"{self.cost(self.paid):.4g}", f"{self._config.budget:g}", f"{self.cost(most):.2g}"
        else:
            spent, limit, more = str(self.paid.tokens), str(self._config.budget_tokens), str(most.tokens)
        return f"{spent} of {limit} are spent and the next reply may take up to {more}"


def most_usage(request: ChatRequest) -> Usage:
    """The most that ``request`` should use; its prompt is estimated from its length."""
    sizes = [_bytes(message) // BYTES_PER_TOKEN + _MESSAGE_TOKENS for message in request.messages]
    schemas = len(json.dumps(request.tools, ensure_ascii=False).encode()) // BYTES_PER_TOKEN if request.tools else 0
    return Usage(sum(sizes) + schemas, request.max_tokens)


def _bytes(message: Mapping[str, Any]) -> int:
    calls = message.get("tool_calls")
    return len(message["content"].encode()) + (len(json.dumps(calls, ensure_ascii=False).encode()) if calls else 0)
