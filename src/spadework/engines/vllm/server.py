"""Asking a vLLM server: which calls there are, how long one is tried, and what is said when it is given up."""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, TypeVar

from spadework.config import VllmConfig
from spadework.engines.base import EngineFault, SamplingParams
from spadework.engines.openai.answers import Answer, NotTheApi, Refused, TryAgain
from spadework.engines.openai.exchange import CONNECT_TIMEOUT_S, Call, NoKey, client_of, exchange, key_in
from spadework.engines.openai.pacing import LONGEST_HOLD_S, backoff_s
from spadework.engines.pulse import Pulse, ServerGone
from spadework.engines.vllm.answers import ADDRESS, Card, NotFound, Reply, cards_of, reply_of, require_ok

if TYPE_CHECKING:
    import httpx

Result = TypeVar("Result")

LOOK_TIMEOUT_S = 10.0
REACHED_S = CONNECT_TIMEOUT_S + 1.0
"""A try that lasted longer had reached the server: connecting takes no more."""
SEEDS = 1 << 63
"""vLLM takes seeds of 63 bits; a negative one would mean none."""


class AdapterRefused(Exception):
    """The server does not load the adapter, whatever is tried; the message has its words."""


class Server:
    """A vLLM server. Calls are made within `connected`."""

    def __init__(self, config: VllmConfig) -> None:
        """Raises EngineFault for a key that is missing or cannot be sent."""
        self.url = config.base_url.rstrip("/")
        self._config, self._key = config, _key(config)
        self._pulse = Pulse(self.is_there, patience_s=config.patience_s, answer_timeout_s=config.answer_timeout_s)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        config = self._config
        async with client_of(self._key, config.answer_timeout_s, config.concurrency) as http:
            yield Connection(self, http)

    def is_there(self) -> bool:
        """Whether anything answers; a refusal is an answer."""
        try:
            urllib.request.urlopen(f"{self.url}/health", timeout=min(LOOK_TIMEOUT_S, self._config.patience_s)).close()
        except urllib.error.HTTPError as error:
            error.close()
        except (OSError, HTTPException):
            return False
        return True

    async def persist(
        self, http: httpx.AsyncClient, call: Call, read: Callable[[Answer], Result], what: str, draw: int
    ) -> Result:
        """What ``read`` makes of the answer. While the server is away, or fails, it is asked again; ``draw`` names the
        waits between. Neither the time in which it worked nor a wait that it asks for is counted against patience.

        Raises EngineFault once patience ends or for a refusal, NotFound, and what else ``read`` raises.
        """
        try:
            return await self._pulse.guard(self._tries(http, call, read, what, draw))
        except ServerGone:
            raise self._gone("could not be reached", what) from None
        except TimeoutError:
            raise EngineFault(
                f"the vLLM server at {self.url} can be reached but did not answer within "
                f"{self._config.answer_timeout_s:g} s when asked for {what}; see its log, or raise "
                "engine.vllm.answer_timeout_s"
            ) from None

    async def _tries(
        self, http: httpx.AsyncClient, call: Call, read: Callable[[Answer], Result], what: str, draw: int
    ) -> Result:
        away_since: float | None = None
        number = 0
        while True:
            asked_at, hold_s = time.monotonic(), 0.0
            try:
                return await self.once(http, call, read)
            except NotTheApi as other:  # a page that stands in for a server that is away: it answered before
                trouble: Exception = other
            except TryAgain as again:
                trouble, hold_s = again, again.after_s
            except Refused as refused:
                raise EngineFault(self.refusal(refused, what)) from None
            if hold_s > LONGEST_HOLD_S:
                reason = f"{trouble}; it asks for a wait of {hold_s:.0f} s"
                raise EngineFault(self.refusal(Refused(reason, "continue later"), what))
            now = time.monotonic()
            if away_since is None or now - asked_at > REACHED_S:
                away_since, number = now, 0
            left = self._config.patience_s - (now - away_since)
            if left <= 0:
                raise self._gone(f"failed ({self.clean(trouble)})", what)
            await asyncio.sleep(max(min(backoff_s(number, draw), left), hold_s))
            away_since += hold_s
            number += 1

    async def once(self, http: httpx.AsyncClient, call: Call, read: Callable[[Answer], Result]) -> Result:
        """As `persist`, tried once; raises TryAgain and Refused too."""
        return read(await exchange(http, call, self._config.answer_timeout_s, ADDRESS))

    def refusal(self, refused: Refused, what: str) -> str:
        return (
            f"the vLLM server at {self.url} was asked for {what} and refused: {self.clean(refused)}; {refused.remedy}"
        )

    def clean(self, error: Exception) -> str:
        """Its message; a server may repeat the key that it refuses."""
        return str(error).replace(self._key, "…") if self._key else str(error)

    def _gone(self, how: str, what: str) -> EngineFault:
        return EngineFault(
            f"the vLLM server at {self.url} {how} for {self._config.patience_s:g} s when asked for {what}; see why, "
            "start it again and give the same command to continue from the last checkpoint"
        )


class Connection:
    """The calls of one server over one pool of connections."""

    def __init__(self, server: Server, http: httpx.AsyncClient) -> None:
        self._server, self._http = server, http

    async def look(self, launch: str) -> tuple[Card, ...]:
        """What the server has, asked once; ``launch`` starts one, if none answers.

        Raises EngineFault if it does not answer as a vLLM server does.
        """
        server, what = self._server, "its models"
        try:
            return await self._soon(Call(f"{server.url}/v1/models"), cards_of, launch)
        except NotFound as error:
            refused = Refused(str(error), f"check {ADDRESS}, the address without /v1")
            raise EngineFault(server.refusal(refused, what)) from None
        except Refused as refused:
            raise EngineFault(server.refusal(refused, what)) from None

    async def takes_adapters(self, launch: str) -> bool:
        """Whether adapters may be loaded while it runs, asked once with a request that loads none.

        Raises EngineFault if no answer comes.
        """
        call = Call(f"{self._server.url}/v1/load_lora_adapter", {"lora_name": "", "lora_path": ""})
        try:
            await self._soon(call, require_ok, launch)
        except NotFound:
            return False
        except Refused:
            pass
        return True

    async def _soon(self, call: Call, read: Callable[[Answer], Result], launch: str) -> Result:
        """What is answered to one try within `LOOK_TIMEOUT_S`. Raises NotFound, Refused and EngineFault."""
        server = self._server
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                return await server.once(self._http, call, read)
        except (TryAgain, TimeoutError) as error:
            said = server.clean(error) or f"it did not answer within {LOOK_TIMEOUT_S:g} s"
            raise EngineFault(
                f"no vLLM server answers at {server.url} ({said}); set engine.vllm.base_url to its address, or start "
                f"it with: {launch}"
            ) from None

    async def load(self, name: str, path: str) -> None:
        """Load the adapter in the directory ``path`` under a name that was never used.

        Raises AdapterRefused and EngineFault.
        """

        def read(answer: Answer) -> None:
            # An answer that was lost on its way is asked for again, and finds the adapter loaded.
            if answer.status == 400 and b"already been" in answer.body:
                return
            try:
                require_ok(answer)
            except (NotFound, Refused) as refused:
                if answer.status in (401, 403):
                    raise
                raise AdapterRefused(self._server.clean(refused)) from None
            except TryAgain as failed:
                # It says so too if the adapter itself is at fault; a server that is away gives no such answer.
                if answer.status == 500:
                    raise AdapterRefused(self._server.clean(failed)) from None
                raise
            if name.encode() not in answer.body:
                raise NotTheApi("its answer does not say that the adapter was loaded", f"check {ADDRESS}")

        await self._ask(
            "load_lora_adapter", {"lora_name": name, "lora_path": path}, read, f"the adapter {name}", draw=0
        )

    async def unload(self, name: str) -> None:
        """Forget the adapter; that it is not there is no error. Raises EngineFault."""

        def read(answer: Answer) -> None:
            if answer.status != 404:
                require_ok(answer)

        await self._ask("unload_lora_adapter", {"lora_name": name}, read, f"the removal of the adapter {name}", draw=0)

    async def complete(self, model: str, prompt_ids: Sequence[int], params: SamplingParams) -> Reply:
        """One reply. Raises NotFound if the server does not know ``model``, and EngineFault."""
        body = completion_body(model, prompt_ids, params)
        what = f"a reply of up to {params.max_tokens} tokens to a prompt of {len(prompt_ids)}"

        def read(answer: Answer) -> Reply:
            return reply_of(answer, prompt_ids, params)

        return await self._ask("completions", body, read, what, draw=params.seed)

    async def _ask(
        self, path: str, body: dict[str, Any], read: Callable[[Answer], Result], what: str, draw: int
    ) -> Result:
        call = Call(f"{self._server.url}/v1/{path}", body)
        return await self._server.persist(self._http, call, read, what, draw)


def completion_body(model: str, prompt_ids: Sequence[int], params: SamplingParams) -> dict[str, Any]:
    """Everything that shapes the distribution is said, so that no default of the server or the model acts."""
    return {
        "model": model,
        "prompt": list(prompt_ids),
        "add_special_tokens": False,
        "n": 1,
        "stream": False,
        "max_tokens": params.max_tokens,
        "min_tokens": 0,
        "temperature": params.temperature,
        "seed": params.seed % SEEDS,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop": [],
        "stop_token_ids": list(params.stop_ids),
        "ignore_eos": True,
        "skip_special_tokens": False,
        "logprobs": 0,
        "return_token_ids": True,
    }


def _key(config: VllmConfig) -> str:
    try:
        return key_in(config.key_variable)
    except NoKey as problem:
        raise EngineFault(
            f"the vLLM server at {config.base_url} needs the key in the environment variable {config.key_variable}, "
            f'which {problem}; set it, or set engine.vllm.key_variable to "" for a server that asks for none'
        ) from None
