"""Ask a server of OpenAI-compatible chat completions, within the limits that the configuration sets."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spadework.config import EndpointConfig
from spadework.engines.chat import (
    ChatReply,
    ChatRequest,
    EndpointRefused,
    EndpointUnavailable,
    NoReply,
    PromptTooLong,
)
from spadework.engines.openai.answers import Empty, NotTheApi, Refused, TooLong, TryAgain, read_answer
from spadework.engines.openai.exchange import Call, NoKey, client_of, exchange, key_in
from spadework.engines.openai.ledger import Ledger
from spadework.engines.openai.pacing import LONGEST_HOLD_S, Pace, backoff_s
from spadework.engines.openai.replies import Replies, key_of

if TYPE_CHECKING:
    import httpx

SEED_RANGE = 2**31
"""Seeds that are sent lie below this."""


@asynccontextmanager
async def open_chat(
    config: EndpointConfig, replies: Path | None, notice: Callable[[str], None]
) -> AsyncIterator[OpenAIChat]:
    """The model of ``config``, with the replies that it gave before in the file ``replies`` (None: none are kept).

    ``notice`` is told once of each kind of trouble that is being waited out. Raises MissingExtra without httpx,
    EndpointRefused if there is no key where one should be, and RepliesUnusable.
    """
    key = endpoint_key(config)
    client = client_of(key, config.timeout_s, config.concurrency)
    with closing(Replies.open(replies)) as kept:
        async with client as http:
            yield OpenAIChat(config, http, kept, notice, key)


class OpenAIChat:
    """A `ChatModel`. Open it with `open_chat`."""

    def __init__(
        self, config: EndpointConfig, http: httpx.AsyncClient, replies: Replies, notice: Callable[[str], None], key: str
    ) -> None:
        self.ledger = Ledger(config, replies.paid())
        self._config = config
        self._url = f"{config.base_url.rstrip('/')}/chat/completions"
        self._http = http
        self._replies = replies
        self._notice = notice
        self._key = key
        self._free = asyncio.Semaphore(config.concurrency)
        self._pace = Pace(config.requests_per_minute, time.monotonic)
        self._told: set[str] = set()
        self._has_answered = False

    @property
    def name(self) -> str:
        return f"{self._config.model} at {self._config.base_url}"

    async def reply(self, request: ChatRequest) -> ChatReply:
        """One reply: the one that was given to this request before, or a new one, which is then kept."""
        body = self._body(request)
        key = key_of(body, request.draw)
        kept = self._replies.find(key)
        if kept is not None:
            self.ledger.used(kept, repeated=True)
            return kept
        async with self._free, self.ledger.reserved(request):
            reply = await self._persist(body, request)
            if reply.usage is None and self.ledger.has_budget:
                raise EndpointRefused(
                    f"the endpoint {self._url} does not say how many tokens {self._config.model} used, so that no "
                    "budget can be kept; set endpoint.budget and endpoint.budget_tokens to none"
                )
            self._replies.keep(key, self._config.model, reply)
            self.ledger.used(reply, repeated=False)
        return reply

    async def _persist(self, body: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        """Try as often as the configuration allows."""
        tries = 1 + self._config.retries
        last, made = TryAgain(""), 0
        for number in range(tries):
            made += 1
            await asyncio.sleep(self._pace.turn())
            try:
                return await self._once(body)
            except TryAgain as trouble:
                last = trouble
                if trouble.after_s > LONGEST_HOLD_S:
                    wait = f"it asks for a wait of {trouble.after_s:.0f} s"
                    raise self._refused(Refused(f"{trouble}; {wait}", "continue later")) from None
                self._pace.hold(trouble.after_s)
                if isinstance(trouble, Empty):
                    self._replies.spend(trouble.usage)
                    self.ledger.paid += trouble.usage
                    # What was reserved for this request is used up.
                    if trouble.final or (self.ledger.has_budget and trouble.usage.tokens):
                        break
                if made == tries:
                    break
                self.ledger.tally.retries += 1
                self._tell(f"{self._clean(trouble)}; trying again")
                await asyncio.sleep(backoff_s(number, request.draw))
            except Refused as refused:
                raise self._refused(refused) from None
            except TooLong as long:
                what = f"a prompt and a reply of {request.max_tokens} tokens"
                raise PromptTooLong(
                    f"the endpoint {self._url} cannot fit {what} into the context of {self._config.model} "
                    f"({self._clean(long)}); lower the token budget of the role that asks"
                ) from None
        tried = f"{made} {'try' if made == 1 else 'tries'}"
        where = f"the endpoint {self._url} gave no reply of {self._config.model} in {tried}"
        if isinstance(last, Empty):
            raise NoReply(f"{where}: {self._clean(last)}")
        remedy = "see that it works, then give the same command again, or raise endpoint.retries"
        raise EndpointUnavailable(f"{where} ({self._clean(last)}); {remedy}")

    async def _once(self, body: Mapping[str, Any]) -> ChatReply:
        answer = await exchange(self._http, Call(self._url, body), self._config.timeout_s, "endpoint.base_url")
        try:
            reply = read_answer(answer, tools="tools" in body)
        except NotTheApi as other:
            if self._has_answered:  # a page that stands in for a server that is away
                raise TryAgain(str(other)) from None
            raise
        self._has_answered = True
        return reply

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._config.model,
            "messages": [dict(message) for message in request.messages],
            "temperature": request.temperature,
            self._config.max_tokens_field: request.max_tokens,
        }
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
        return {**body, "seed": request.draw % SEED_RANGE} if self._config.send_seed else body

    def _refused(self, refused: Refused) -> EndpointRefused:
        return EndpointRefused(
            f"the endpoint {self._url} cannot be used with the model {self._config.model}: {self._clean(refused)}; "
            f"{refused.remedy}"
        )

    def _tell(self, trouble: str) -> None:
        kind = re.sub(r"\d[\d.]*", "#", trouble)
        if kind not in self._told:
            self._told.add(kind)
            self._notice(f"endpoint {self._url}: {trouble}")

    def _clean(self, error: Exception) -> str:
        """Its message; a server may repeat the key that it refuses."""
        return str(error).replace(self._key, "…") if self._key else str(error)


def endpoint_key(config: EndpointConfig) -> str:
    """The key, empty if none is to be sent. Raises EndpointRefused for one that is missing or cannot be sent."""
    try:
        return key_in(config.key_variable)
    except NoKey as problem:
        raise EndpointRefused(
            f"the endpoint {config.base_url} needs the key in the environment variable {config.key_variable}, which "
            f'{problem}; set it, or set endpoint.key_variable to "" for a server that asks for none'
        ) from None
