"""The requesters of one `cohort` call at a vLLM server: each request goes out as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType

from spadework.engines.base import EngineFault, Sample, SamplingParams, StaleCohort
from spadework.engines.local.engine import LocalEngine
from spadework.engines.remote import check_request
from spadework.engines.vllm.adapters import Adapters, Loaded, require_model
from spadework.engines.vllm.answers import NotFound, Reply
from spadework.engines.vllm.server import Connection, Server


class VllmCohort:
    """Bound to the weights that the engine had when it was opened, and stale after any change of them."""

    def __init__(self, local: LocalEngine, server: Server, adapters: Adapters, size: int, concurrency: int) -> None:
        if size < 1:
            raise ValueError(f"a cohort has at least one member, not {size}")
        self._local, self._server, self._adapters = local, server, adapters
        self._members, self._asking = set(range(size)), set[int]()
        self._weights_epoch = local.weights_epoch
        self._free = asyncio.Semaphore(concurrency)
        self._stack = AsyncExitStack()
        self._connection: Connection | None = None

    async def __aenter__(self) -> VllmCohort:
        self._connection = await self._stack.enter_async_context(self._server.connected())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._members.clear()
        self._connection = None
        await self._stack.aclose()

    async def sample(self, member: int, prompt_ids: Sequence[int], params: SamplingParams) -> Sample:
        """See `engines.base.Cohort`. Raises StaleCohort after a change of the weights, and EngineFault."""
        if member not in self._members or self._connection is None:
            raise ValueError(f"member {member} is not in this cohort, or has left it")
        if member in self._asking:
            raise ValueError(f"member {member} asked for a second reply before its first came")
        self._require_fresh()
        check_request(prompt_ids, params, self._local.max_context_tokens, self._local.vocabulary)
        self._asking.add(member)
        try:
            async with self._free:
                adapter, reply = await self._ask(self._connection, prompt_ids, params)
        finally:
            self._asking.discard(member)
        self._require_fresh()
        return Sample(reply.token_ids_T, reply.logprobs_T, reply.stop_reason, adapter.policy_version)

    def leave(self, member: int) -> None:
        """The member will ask for nothing more. Leaving twice is no error."""
        self._members.discard(member)

    async def _ask(
        self, connection: Connection, prompt_ids: Sequence[int], params: SamplingParams
    ) -> tuple[Loaded, Reply]:
        """A reply and the adapter that gave it. A server that was started again has lost it, and is given it again."""
        adapter = await self._adapters.current()
        try:
            reply = await connection.complete(adapter.name, prompt_ids, params)
        except NotFound:
            adapter = await self._adapters.current(lost=adapter)
            try:
                reply = await connection.complete(adapter.name, prompt_ids, params)
            except NotFound as error:
                raise EngineFault(
                    f"the vLLM server at {self._server.url} loaded the adapter {adapter.name} and does not know it "
                    f"any more ({error}); see its log, start it again and give the same command to continue from the "
                    "last checkpoint"
                ) from None
        require_model(reply, adapter.name)
        return adapter, reply

    def _require_fresh(self) -> None:
        if self._local.weights_epoch != self._weights_epoch:
            raise StaleCohort("the weights changed while this cohort was open; open a new cohort after every update")
