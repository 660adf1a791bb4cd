"""Waiting for answers of a server that may be gone: a client library that retries for ever must not hang a run."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Result = TypeVar("Result")

INTERVAL_S = 5.0
"""Between two looks at the server while somebody waits."""


class ServerGone(Exception):
    """The server could not be reached for as long as the patience lasts."""


class Pulse:
    """While anybody waits in `guard`, one task looks whether the server is there.

    ``is_there`` blocks and must come back within seconds.
    """

    def __init__(self, is_there: Callable[[], bool], *, patience_s: float, answer_timeout_s: float) -> None:
        self._is_there, self._patience_s, self._answer_timeout_s = is_there, patience_s, answer_timeout_s
        self._waiting = 0
        self._watch: asyncio.Task[None] | None = None

    async def guard(self, answer: Awaitable[Result]) -> Result:
        """The answer. Raises ServerGone, or TimeoutError if the server is there and does not answer."""
        asked = asyncio.ensure_future(answer)
        if self._watch is None:
            self._watch = asyncio.create_task(self._look())
        self._waiting += 1
        watch = self._watch
        try:
            await asyncio.wait({asked, watch}, timeout=self._answer_timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            if watch.done():
                watch.result()
            raise TimeoutError(f"no answer within {self._answer_timeout_s:g} s")
        finally:
            asked.cancel()
            self._waiting -= 1
            if self._waiting == 0:
                watch.cancel()
                self._watch = None

    async def _look(self) -> None:
        last_seen = time.monotonic()
        while True:
            await asyncio.sleep(min(INTERVAL_S, self._patience_s / 4))
            if await in_thread(self._is_there):
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen >= self._patience_s:
                raise ServerGone


async def in_thread(work: Callable[[], Result]) -> Result:
    """Run blocking ``work`` in a thread that nobody waits for, unlike asyncio's own, when the program ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def tell(result: Result | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: Result | None = None
        error: BaseException | None = None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=run, daemon=True, name="waiting").start()
    return await done
