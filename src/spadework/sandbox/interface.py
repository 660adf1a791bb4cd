"""What callers need of a sandbox, wherever its programs run: a `Sandbox`, `RemoteSandbox` or `RaySandbox`."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from spadework.sandbox.handles import ProgramInfo
from spadework.sandbox.layers import Layer
from spadework.sandbox.outcomes import Transition


class PlayHandle(Protocol):
    """One play of a program. See `Play`."""

    async def step(self, action: str) -> Transition: ...

    async def solution(self) -> tuple[str, ...]: ...

    async def inspect(self) -> str: ...

    async def close(self) -> None: ...


class ProgramHandle(Protocol):
    """A loaded program. See `Program`."""

    @property
    def info(self) -> ProgramInfo: ...

    async def reset(self, seed: int | None) -> tuple[PlayHandle, str]: ...

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class ProgramHost(Protocol):
    """What opens programs. See `Sandbox`."""

    @property
    def hash_seed(self) -> int: ...

    def level(self) -> tuple[Layer, ...]: ...

    async def open(self, source: str, hash_seed: int | None = None) -> ProgramHandle: ...

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
