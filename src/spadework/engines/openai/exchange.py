"""One request and its answer over HTTP, whatever was asked: what fails on the way has a name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spadework.engines.openai.answers import Answer, Refused, TryAgain

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 32 * 2**20
CONNECT_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Call:
    """``body`` is sent as JSON with POST; without one the request is a GET."""

    url: str
    body: Mapping[str, Any] | None = None


class NoKey(Exception):
    """An environment variable holds no key; the message continues a sentence that names it."""


def key_in(variable: str) -> str:
    """The key in an environment variable, empty for no variable. Raises NoKey."""
    if not variable:
        return ""
    key = os.environ.get(variable, "").strip()
    if key and key.isascii() and key.isprintable():
        return key
    raise NoKey("holds characters that no key has" if key else "is not set")


def client_of(key: str, timeout_s: float, concurrency: int) -> httpx.AsyncClient:
    """Connections to one server, ``concurrency`` at most; ``key`` is sent unless it is empty.

    Raises MissingExtra without httpx.
    """
    package = _package()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    client: httpx.AsyncClient = package.AsyncClient(
        headers=headers,
        timeout=package.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s)),
        limits=package.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
    )
    return client


async def exchange(http: httpx.AsyncClient, call: Call, timeout_s: float, setting: str) -> Answer:
    """What the server answered. Raises TryAgain, and Refused for an address that is none, which names ``setting``."""
    import httpx

    try:
        async with asyncio.timeout(timeout_s):
            return await _answer(http, call)
    except (TimeoutError, httpx.TimeoutException):
        raise TryAgain(f"it did not answer within {timeout_s:g} s") from None
    except httpx.InvalidURL as error:
        raise Refused(f"the address is none ({error})", f"correct {setting}") from None
    except (httpx.TransportError, httpx.DecodingError) as error:
        raise TryAgain(f"the connection failed: {error or type(error).__name__}") from None


async def _answer(http: httpx.AsyncClient, call: Call) -> Answer:
    method = "GET" if call.body is None else "POST"
    async with http.stream(method, call.url, json=call.body) as response:
        content = bytearray()
        async for part in response.aiter_bytes():
            content += part
            if len(content) > MAX_ANSWER_BYTES:
                raise TryAgain(f"its answer is larger than {MAX_ANSWER_BYTES} bytes")
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, headers, bytes(content))


def _package() -> Any:
    from spadework.engines.open import MissingExtra

    try:
        import httpx
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "an endpoint needs httpx, which is not installed: pip install 'spadework[endpoint]'"
        ) from error
    return httpx
