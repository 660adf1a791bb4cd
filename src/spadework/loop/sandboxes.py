"""A sandbox for every iteration, which starts while the iteration before it is stored and the policy updated.

Sandboxes remember programs that had to be ended, and an iteration must not depend on which ones came before it in the
same process: so each has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from spadework.sandbox import ProgramHost, open_sandbox
from spadework.sandbox.limits import SandboxConfig


class Sandboxes:
    """Use it with `async with`; at its end a sandbox that was prepared and not used is closed."""

    def __init__(self, config: SandboxConfig) -> None:
        self._config = config
        self._next: asyncio.Task[ProgramHost] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._next is None:
            return
        self._next.cancel()
        (opened,) = await asyncio.gather(self._next, return_exceptions=True)
        self._next = None
        if not isinstance(opened, BaseException):
            await opened.close()

    async def prepare(self) -> None:
        """Begin to open the next one, and do not wait for it. If that fails, `fresh` says so."""
        if self._next is None:
            self._next = asyncio.create_task(self._open())
            await asyncio.sleep(0)  # its process is started before this one is busy with other things

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[ProgramHost]:
        """The next one. Raises InfrastructureFault if programs cannot run there, or are not isolated enough."""
        await self.prepare()
        assert self._next is not None
        sandbox = await self._next
        self._next = None
        try:
            yield sandbox
        finally:
            await sandbox.close()

    async def _open(self) -> ProgramHost:
        return await open_sandbox(self._config).__aenter__()
