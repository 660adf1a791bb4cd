"""Lockstep requests: a cohort samples when every live member waits, so timing never shapes a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

import numpy as np

from spadework.engines.base import ContextTooLong, Sample, SamplingParams, StaleCohort
from spadework.engines.local.kvcache import MemberCache
from spadework.engines.local.sampling import Reply, Request


class Generator(Protocol):
    """What a cohort needs of its engine."""

    @property
    def policy_version(self) -> int: ...
    @property
    def weights_epoch(self) -> int:
        """Changes whenever the weights do."""
        ...

    @property
    def max_context_tokens(self) -> int: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def sample_batch(self) -> int: ...
    def new_cache(self) -> MemberCache: ...
    async def generate(self, requests: Sequence[Request], weights_epoch: int) -> list[Reply]:
        """Raises StaleCohort if the weights are no longer those of ``weights_epoch``."""
        ...


class LocalCohort:
    """The requesters of one `cohort` call, numbered from 0.

    When every live member waits, their requests are served in member order, in even chunks of at most ``sample_batch``
    rows. A chunk's members get their replies as soon as it is done and may step their environments while the next
    chunk decodes; the next batch still waits for all of them.
    """

    def __init__(self, generator: Generator, size: int) -> None:
        if size < 1:
            raise ValueError(f"a cohort has at least one member, not {size}")
        self._generator = generator
        self._weights_epoch = generator.weights_epoch
        self._caches: dict[int, MemberCache] = {member: generator.new_cache() for member in range(size)}
        self._waiting: dict[int, tuple[Request, asyncio.Future[Sample]]] = {}
        self._serving: asyncio.Task[None] | None = None
        self._served: set[int] = set()

    async def __aenter__(self) -> LocalCohort:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._caches.clear()
        for _, future in self._waiting.values():
            future.cancel()
        self._waiting.clear()
        if self._serving is not None:
            await asyncio.wait([self._serving])

    async def sample(self, member: int, prompt_ids: Sequence[int], params: SamplingParams) -> Sample:
        """See `engines.base.Cohort`. Raises StaleCohort after a change of the weights."""
        if member not in self._caches:
            raise ValueError(f"member {member} is not in this cohort, or has left it")
        if member in self._waiting or member in self._served:
            raise ValueError(f"member {member} asked for a second reply before its first came")
        request = self._request(member, prompt_ids, params)
        future: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        self._waiting[member] = (request, future)
        self._serve_if_all_wait()
        try:
            return await future
        finally:
            # Only a cancelled request is still here: nobody waits for its reply any more.
            if self._waiting.get(member, (None, None))[1] is future:
                del self._waiting[member]

    def leave(self, member: int) -> None:
        """The member will ask for nothing more; its cache is freed. Leaving twice is no error."""
        self._caches.pop(member, None)
        waiting = self._waiting.pop(member, None)
        if waiting is not None:
            waiting[1].cancel()
        self._serve_if_all_wait()

    def _request(self, member: int, prompt_ids: Sequence[int], params: SamplingParams) -> Request:
        if self._generator.weights_epoch != self._weights_epoch:
            raise StaleCohort("the weights changed while this cohort was open; open a new cohort after every update")
        if params.max_tokens < 1 or params.seed < 0 or params.temperature < 0:
            raise ValueError(f"max_tokens must be positive, seed and temperature not negative: {params}")
        limit = self._generator.max_context_tokens
        if len(prompt_ids) + params.max_tokens > limit:
            raise ContextTooLong(
                f"a prompt of {len(prompt_ids)} tokens and a reply of up to {params.max_tokens} do not fit the context "
                f"of {limit} tokens (model.max_context_tokens)"
            )
        prompt = np.array(prompt_ids, dtype=np.int64)
        if len(prompt) == 0 or prompt.min() < 0 or prompt.max() >= self._generator.vocabulary:
            raise ValueError(f"a prompt is one or more token ids in [0, {self._generator.vocabulary})")
        return Request(prompt, params, self._caches[member])

    def _serve_if_all_wait(self) -> None:
        if self._serving is None and self._waiting and len(self._waiting) == len(self._caches):
            batch = [(member, *self._waiting.pop(member)) for member in sorted(self._waiting)]
            self._served = {member for member, _, _ in batch}
            self._serving = asyncio.get_running_loop().create_task(self._serve(batch))

    async def _serve(self, batch: Sequence[tuple[int, Request, asyncio.Future[Sample]]]) -> None:
        chunks = -(-len(batch) // self._generator.sample_batch)
        size = -(-len(batch) // chunks)
        try:
            for first in range(0, len(batch), size):
                chunk = batch[first : first + size]
                requests = [request for _, request, _ in chunk]
                replies = await self._generator.generate(requests, self._weights_epoch)
                for (member, _, future), reply in zip(chunk, replies, strict=True):
                    self._served.discard(member)
                    if member in self._caches:
                        self._caches[member] = reply.cache
                    if not future.done():
                        future.set_result(self._sample(reply))
        except BaseException as error:
            for _, _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._served.clear()
            self._serving = None
            self._serve_if_all_wait()

    def _sample(self, reply: Reply) -> Sample:
        version = self._generator.policy_version
        return Sample(reply.token_ids_T, reply.logprobs_T, reply.stop_reason, version)
