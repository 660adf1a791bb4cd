"""Ask a server of OpenAI-compatible chat completions, within the limits that the configuration sets."""

from __future__ import annotations

import asyncio
import os
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
from spadework.engines.openai.answers import Answer, Empty, NotTheApi, Refused, TooLong, TryAgain, read_answer
from spadework.engines.openai.ledger import Ledger
from spadework.engines.openai.pacing import LONGEST_HOLD_S, Pace, backoff_s
from spadework.engines.openai.replies import Replies, key_of

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 32 * 2**20
CONNECT_TIMEOUT_S = 30.0
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
    httpx = _package()
    key = endpoint_key(config)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = httpx.Timeout(config.timeout_s, connect=min(CONNECT_TIMEOUT_S, config.timeout_s))
    limits = httpx.Limits(max_connections=config.concurrency, max_keepalive_connections=config.concurrency)
    with closing(Replies.open(replies)) as kept:
        async with httpx.AsyncClient(headers=headers, timeout=timeout, limits=limits) as http:
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
        import httpx

        try:
            async with asyncio.timeout(self._config.timeout_s):
                answer = await self._exchange(body)
        except (TimeoutError, httpx.TimeoutException):
            raise TryAgain(f"it did not answer within {self._config.timeout_s:g} s") from None
        except httpx.InvalidURL as error:
            raise Refused(f"the address is none ({error})", "correct endpoint.base_url") from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise TryAgain(f"the connection failed: {error or type(error).__name__}") from None
        try:
            reply = read_answer(answer, tools="tools" in body)
        except NotTheApi as other:
            if self._has_answered:  # a page that stands in for a server that is away
                raise TryAgain(str(other)) from None
            raise
        self._has_answered = True
        return reply

    async def _exchange(self, body: Mapping[str, Any]) -> Answer:
        async with self._http.stream("POST", self._url, json=body) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MAX_ANSWER_BYTES:
                    raise TryAgain(f"its answer is larger than {MAX_ANSWER_BYTES} bytes")
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status_code, headers, bytes(content))

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
    name = config.key_variable
    if not name:
        return ""
    key = os.environ.get(name, "").strip()
    if key and key.isascii() and key.isprintable():
        return key
    problem = "holds characters that no key has" if key else "is not set"
    raise EndpointRefused(
        f"the endpoint {config.base_url} needs the key in the environment variable {name}, which {problem}; set it, or "
        'set endpoint.key_variable to "" for a server that asks for none'
    )


def _package() -> Any:
    from spadework.engines.open import MissingExtra

    try:
        import httpx
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "an endpoint needs httpx, which is not installed: pip install 'spadework[endpoint]'"
        ) from error
    return httpx
