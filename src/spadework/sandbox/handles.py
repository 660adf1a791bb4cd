"""What every sandbox, program and play guards, wherever programs run.

Closed things answer no call, a play answers one call at a time, and after a fault of its program it raises that fault
again. What a call does is left to the kinds of sandbox, which derive from the three classes here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

from spadework.sandbox import wire
from spadework.sandbox.layers import Layer
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, InfrastructureFault, Transition

MAX_ADAPTATIONS = 64
HASH_SEEDS = 2**32
"""Hash seeds lie below it."""

PlayCall = Literal["reset", "step", "solution", "inspect"]

T = TypeVar("T")
PlayT = TypeVar("PlayT", bound="BasePlay")
ProgramT = TypeVar("ProgramT", bound="BaseProgram[Any]")


@dataclass(frozen=True)
class ProgramInfo:
    """What is known of a program. ``adaptations`` says what was changed to make it obey the contract."""

    class_name: str
    max_turns: int | None
    has_solution: bool
    adaptations: tuple[str, ...]
    uses_tools: bool = False
    """Actions and observations are in the notation of `spadework.environment.tool_calls`."""


class BaseSandbox(ABC, Generic[ProgramT]):
    """Use it with `async with`, in one event loop. Programs opened in it end with it."""

    def __init__(self, limits: Limits, hash_seed: int) -> None:
        require_hash_seed(hash_seed)
        self.limits = limits
        self.hash_seed = hash_seed
        self._is_open = False

    async def __aenter__(self) -> Self:
        """Raises InfrastructureFault if programs cannot run there, or are not isolated enough."""
        self._is_open = True
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @abstractmethod
    def level(self) -> tuple[Layer, ...]:
        """Every layer of isolation, in force or not, from the weakest to the strongest."""

    async def open(self, source: str, hash_seed: int | None = None) -> ProgramT:
        """The program, loaded and constructed once, among texts hashed with ``hash_seed`` or else as in the sandbox.

        Raises EnvironmentFault (LOAD if the source does not compile, import or construct, or does not define one
        class whose name ends in Env) and InfrastructureFault.
        """
        if hash_seed is not None:
            require_hash_seed(hash_seed)
        require_source(source, self.limits)
        self._require_open()
        return await self._open(source, self.hash_seed if hash_seed is None else hash_seed)

    async def close(self) -> None:
        """End every program, and wait for it."""
        self._is_open = False
        await self._end()

    def _require_open(self) -> None:
        if not self._is_open:
            raise RuntimeError(f"the sandbox is not open: use `async with {type(self).__name__}(...)`")

    @abstractmethod
    async def _start(self) -> None: ...

    @abstractmethod
    async def _open(self, source: str, hash_seed: int) -> ProgramT: ...

    @abstractmethod
    async def _end(self) -> None:
        """May be called again, and after a start that failed."""


class BaseProgram(ABC, Generic[PlayT]):
    """Close it, or use it with `async with`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._info = ProgramInfo("", None, False, ())
        self._closed = False

    @property
    def info(self) -> ProgramInfo:
        return self._info

    @property
    def closed(self) -> bool:
        return self._closed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def reset(self, seed: int | None) -> tuple[PlayT, str]:
        """A new play and its first observation, on a fresh instance of the class.

        ``seed`` lies in [-2**63, 2**64). Raises EnvironmentFault, InfrastructureFault, and ValueError for a seed
        out of range.
        """
        require_seed(seed)
        self.require_usable()
        return await self._begin(seed)

    async def close(self) -> None:
        """End the program's processes. Its plays cannot be used any more."""
        if not self.closed:
            self._closed = True
            await self._end()

    def require_usable(self) -> None:
        """Raises RuntimeError if the program is closed."""
        if self.closed:
            raise RuntimeError(f"the program {self.info.class_name} is closed")

    def learn(self, loaded: tuple[str, int | None, bool, bool]) -> None:
        """What the program is, as `wire.loaded_of` reads it."""
        class_name, max_turns, has_solution, uses_tools = loaded
        self._info = ProgramInfo(class_name, max_turns, has_solution, self._info.adaptations, uses_tools)

    def note(self, notes: tuple[str, ...]) -> None:
        """Adaptations that were made; those that are new, up to `MAX_ADAPTATIONS`: a program can forge any number."""
        if not notes:
            return
        known = self._info.adaptations
        new = tuple(note for note in notes if note not in known)[: MAX_ADAPTATIONS - len(known)]
        if new:
            self._info = replace(self._info, adaptations=known + new)

    @abstractmethod
    async def _begin(self, seed: int | None) -> tuple[PlayT, str]: ...

    @abstractmethod
    async def _end(self) -> None: ...


class BasePlay(ABC):
    """One call at a time; after a fault every call raises the same fault again."""

    def __init__(self, program: BaseProgram[Any]) -> None:
        self._guard = program
        self._fault: EnvironmentFault | None = None
        self._busy = False
        self._closed = False

    async def begin(self, seed: int | None) -> str:
        limits = self._guard.limits
        return await self._call("reset", seed, lambda value: wire.observation_of(value, limits))

    async def step(self, action: str) -> Transition:
        """Raises EnvironmentFault or InfrastructureFault; TypeError if the action is no text."""
        if not isinstance(action, str):
            raise TypeError(f"an action is a str, not {type(action).__name__}")
        limits = self._guard.limits
        return await self._call("step", action, lambda value: wire.transition_of(value, limits))

    async def solution(self) -> tuple[str, ...]:
        """The actions that win this play. Raises EnvironmentFault of kind CONTRACT if there are none."""
        return await self._call("solution", None, wire.solution_of)

    async def inspect(self) -> str:
        """JSON of what the gates look at in a tool environment: instructions, what each criterion says, the state.

        Raises EnvironmentFault, of kind CONTRACT if the program is no tool environment.
        """
        limits = self._guard.limits
        return await self._call("inspect", None, lambda value: wire.inspection_of(value, limits))

    async def close(self) -> None:
        """Forget the play. Never fails; may be called again."""
        if not self._closed:
            self._closed = True
            self._leave()

    async def _call(self, call: PlayCall, argument: str | int | None, read: Callable[[object], T]) -> T:
        self._require_usable()
        self._busy = True
        try:
            return await self._ask(call, argument, read)
        except EnvironmentFault as fault:
            self._fault = fault
            self._leave()
            raise
        except InfrastructureFault:
            raise  # the same call may be tried again
        except BaseException:
            # cancelled: whether the program has seen the call is unknown
            await self.close()
            raise
        finally:
            self._busy = False

    def _require_usable(self) -> None:
        if self._fault is not None:
            raise EnvironmentFault(self._fault.kind, self._fault.reason, self._fault.trace)
        if self._closed:
            raise RuntimeError("the play is closed")
        if self._busy:
            raise RuntimeError("a play answers one call at a time")
        self._guard.require_usable()

    @abstractmethod
    async def _ask(self, call: PlayCall, argument: str | int | None, read: Callable[[object], T]) -> T:
        """What ``read`` makes of the answer."""

    @abstractmethod
    def _leave(self) -> None:
        """Give up what holds the play, if anything does."""


def require_seed(seed: int | None) -> None:
    """Raises ValueError for a seed that no program can be given."""
    if seed is not None and not -(2**63) <= seed < 2**64:
        raise ValueError(f"the seed {seed} is not within [-2**63, 2**64)")


def require_hash_seed(hash_seed: int) -> None:
    """Raises ValueError for a seed that hashes cannot have."""
    if not 0 <= hash_seed < HASH_SEEDS:
        raise ValueError(f"the hash seed {hash_seed} is not within [0, 2**32)")


def require_source(source: str, limits: Limits) -> None:
    """Raises EnvironmentFault for a source that is too long to be opened."""
    if len(source) > limits.max_source_chars:
        raise EnvironmentFault(
            FaultKind.LOAD,
            f"the source has {len(source)} characters; at most {limits.max_source_chars} are accepted",
        )
