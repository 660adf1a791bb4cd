"""Scripted plays of one opened program: the evidence that gates judge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from spadework.environment.tool_calls import Inspection, decode_inspection
from spadework.sandbox.outcomes import EnvironmentFault, Transition

QUOTED_CHARS = 60

A = TypeVar("A")
T = TypeVar("T")


class Play(Protocol):
    """One episode of an opened program, as the sandbox gives it."""

    async def step(self, action: str) -> Transition: ...
    async def solution(self) -> tuple[str, ...]: ...
    async def inspect(self) -> str: ...
    async def close(self) -> None: ...


class OpenProgram(Protocol):
    """An opened program, as the sandbox gives it."""

    async def reset(self, seed: int | None) -> tuple[Play, str]: ...


@dataclass(frozen=True)
class Step:
    """An action and what the program answered."""

    action: str
    observation: str
    reward: float
    terminated: bool
    truncated: bool

    @property
    def ends(self) -> bool:
        return self.terminated or self.truncated


@dataclass(frozen=True)
class Transcript:
    """One scripted play from ``seed``."""

    seed: int | None
    first_observation: str
    steps: tuple[Step, ...]

    @property
    def ended(self) -> bool:
        """Whether the program itself ended the episode."""
        return bool(self.steps) and self.steps[-1].ends

    @property
    def terminal_reward(self) -> float:
        """The last reward if the episode terminated, otherwise 0."""
        return self.steps[-1].reward if self.steps and self.steps[-1].terminated else 0.0

    @property
    def actions(self) -> tuple[str, ...]:
        return tuple(step.action for step in self.steps)

    @property
    def observations(self) -> tuple[str, ...]:
        """Everything that was shown, the first observation included."""
        return (self.first_observation, *(step.observation for step in self.steps))


@dataclass(frozen=True)
class Inspected:
    """A scripted play of a tool environment: ``inspections`` has one from the start, and one after each step."""

    transcript: Transcript
    inspections: tuple[Inspection, ...]


Choose = Callable[[Transcript], str | None]
"""The next action of a scripted agent, given the play so far; None stops the play."""


class GateFailed(Exception):
    """A gate says no. ``reason`` is one sentence for the program's author."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PlayFault(Exception):
    """The program failed during a scripted play; ``reason`` tells where."""

    def __init__(self, fault: EnvironmentFault, where: str) -> None:
        self.kind = fault.kind
        self.trace = fault.trace
        self.reason = f"{fault.reason} ({where})"
        super().__init__(self.reason)


async def play_out(program: OpenProgram, seed: int | None, choose: Choose, max_turns: int) -> Transcript:
    """Play until the program ends the episode, ``choose`` stops, or ``max_turns`` actions were sent.

    Raises PlayFault if the program fails.
    """
    play, observation = await start(program, seed)
    transcript = Transcript(seed, observation, ())
    try:
        while len(transcript.steps) < max_turns and not transcript.ended:
            action = choose(transcript)
            if action is None:
                break
            transcript = await advance(play, transcript, action)
    finally:
        await play.close()
    return transcript


async def start(program: OpenProgram, seed: int | None) -> tuple[Play, str]:
    """`reset`. Raises PlayFault."""
    try:
        return await program.reset(seed)
    except EnvironmentFault as fault:
        raise PlayFault(fault, f"seed {seed}") from fault


async def advance(play: Play, transcript: Transcript, action: str) -> Transcript:
    """`step`. Raises PlayFault."""
    try:
        answer = await play.step(action)
    except EnvironmentFault as fault:
        turn = len(transcript.steps) + 1
        raise PlayFault(fault, f"seed {transcript.seed}, turn {turn}, action {quote(action)}") from fault
    step = Step(action, answer.observation, answer.reward, answer.terminated, answer.truncated)
    return Transcript(transcript.seed, transcript.first_observation, (*transcript.steps, step))


async def play_inspected(program: OpenProgram, seed: int, actions: Sequence[str]) -> Inspected:
    """Send ``actions`` until the program ends the episode, and look inside before and after each.

    Raises PlayFault if the program fails, and NotToolObservation.
    """
    play, observation = await start(program, seed)
    transcript = Transcript(seed, observation, ())
    try:
        inspections = [await inspect(play, transcript)]
        for action in actions:
            if transcript.ended:
                break
            transcript = await advance(play, transcript, action)
            inspections.append(await inspect(play, transcript))
    finally:
        await play.close()
    return Inspected(transcript, tuple(inspections))


async def inspect(play: Play, transcript: Transcript) -> Inspection:
    """Raises PlayFault and NotToolObservation."""
    try:
        return decode_inspection(await play.inspect())
    except EnvironmentFault as fault:
        raise PlayFault(fault, f"seed {transcript.seed}, after turn {len(transcript.steps)}") from fault


async def ask_solution(program: OpenProgram, seed: int) -> tuple[str, tuple[str, ...] | PlayFault]:
    """The first observation on ``seed``, and what `solution()` then answers, in a play of its own.

    Raises PlayFault if it is `reset` that fails.
    """
    play, observation = await start(program, seed)
    try:
        return observation, await play.solution()
    except EnvironmentFault as fault:
        return observation, PlayFault(fault, f"seed {seed}")
    finally:
        await play.close()


async def attempt(make: Callable[[A], Awaitable[T]], over: Sequence[A]) -> list[T | PlayFault]:
    """``make`` of each item, concurrently. Results and faults of the program are in the order of ``over``.

    Raises whatever else goes wrong, such as a fault of the host.
    """

    async def run(item: A) -> T | PlayFault:
        try:
            return await make(item)
        except PlayFault as fault:
            return fault

    tasks = [asyncio.ensure_future(run(item)) for item in over]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def together(make: Callable[[A], Awaitable[T]], over: Sequence[A]) -> list[T]:
    """As `attempt`, but raises the fault that comes first in ``over``.

    Not the one that happened first: a verdict must not depend on timing.
    """
    return working(await attempt(make, over))


def working(results: Sequence[T | PlayFault]) -> list[T]:
    """``results`` if none is a fault. Raises the first fault."""
    made: list[T] = []
    for result in results:
        if isinstance(result, PlayFault):
            raise result
        made.append(result)
    return made


def scripted(actions: Sequence[str]) -> Choose:
    """Send ``actions`` one by one, then stop."""

    def choose(transcript: Transcript) -> str | None:
        turn = len(transcript.steps)
        return actions[turn] if turn < len(actions) else None

    return choose


def repeated(actions: Sequence[str]) -> Choose:
    """Send ``actions`` one by one, over and over."""

    def choose(transcript: Transcript) -> str | None:
        return actions[len(transcript.steps) % len(actions)]

    return choose


def quote(text: str) -> str:
    """``text`` as a Python literal, cut to `QUOTED_CHARS` characters."""
    return repr(text) if len(text) <= QUOTED_CHARS else f"{text[:QUOTED_CHARS]!r}… ({len(text)} characters)"
