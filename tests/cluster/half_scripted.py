"""A policy whose designs are written by the test, and of whose players every second one plays as the test says.

Everybody else's replies are the service's own. All log-probabilities are its own, so that the update is a real one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from selfplay_world import HINT, NAMES, PROGRAM, guess

from spadework.engines.base import Datum, ForwardBackward, OptimStep, Sample, SamplingParams, StopReason
from spadework.engines.tinker.engine import TinkerCohort, TinkerEngine
from spadework.learning.loss import PolicyLoss
from spadework.roles.rendering import Rendering
from spadework.seeding import generator


def say(prompt: str, params: SamplingParams) -> str:
    """Both roles: one design in four is none; six guesses nearly always find the number if they are good ones."""
    asked = prompt.split("<|im_start|>user\n")[1]
    rng = generator(params.seed, "script")
    if asked.startswith("hint:"):
        return HINT
    if not asked.startswith("design "):
        return guess(prompt, rng)
    if rng.random() < 1 / 4:
        return "I would rather not."
    name, low = NAMES[int(rng.integers(len(NAMES)))], int(rng.integers(100, 900))
    words, high = f"{name} in the harbour", low + int(rng.integers(40, 64))
    source = PROGRAM.format(name=name.title(), attribute=f"{name}_at", words=words, low=low, high=high)
    return f"```python\n{source}```"


@dataclass
class HalfScripted:
    engine: TinkerEngine
    rendering: Rendering
    own_replies: int = 0

    @property
    def policy_version(self) -> int:
        return self.engine.policy_version

    @asynccontextmanager
    async def cohort(self, size: int) -> AsyncIterator[HalfScriptedCohort]:
        async with self.engine.cohort(size) as cohort:
            yield HalfScriptedCohort(self, cohort)

    async def score(self, data: Sequence[Datum], *, reference: bool = False) -> tuple[tuple[float, ...], ...]:
        return await self.engine.score(data, reference=reference)

    async def forward_backward(self, data: Sequence[Datum], loss: PolicyLoss) -> ForwardBackward:
        return await self.engine.forward_backward(data, loss)

    async def optim_step(self, learning_rate: float) -> OptimStep:
        return await self.engine.optim_step(learning_rate)

    async def whole_step(
        self, passes: Sequence[Sequence[Datum]], loss: PolicyLoss, learning_rate: float
    ) -> tuple[tuple[ForwardBackward, ...], OptimStep]:
        return await self.engine.whole_step(passes, loss, learning_rate)

    async def save(self, directory: Path) -> None:
        await self.engine.save(directory)

    async def load(self, directory: Path) -> None:
        await self.engine.load(directory)

    async def export(self, directory: Path) -> None:
        await self.engine.export(directory)


@dataclass
class HalfScriptedCohort:
    policy: HalfScripted
    cohort: TinkerCohort

    async def sample(self, member: int, prompt_ids: Sequence[int], params: SamplingParams) -> Sample:
        rendering = self.policy.rendering
        prompt = rendering.decode(prompt_ids)
        asked = prompt.split("<|im_start|>user\n")[1]
        if member % 2 and not asked.startswith(("design ", "hint:")):
            self.policy.own_replies += 1
            return await self.cohort.sample(member, prompt_ids, params)
        ids = (*rendering.encode(say(prompt, params)), rendering.stop_ids[0])
        stop = StopReason.STOP if len(ids) <= params.max_tokens else StopReason.LENGTH
        ids = ids[: params.max_tokens]
        zeros = (0.0,) * (len(prompt_ids) + len(ids))
        datum = Datum((*prompt_ids, *ids), (0.0,) * len(prompt_ids) + (1.0,) * len(ids), zeros, zeros)
        (row,) = await self.policy.score([datum])
        return Sample(ids, row[len(prompt_ids) :], stop, self.policy.policy_version)

    def leave(self, member: int) -> None:
        self.cohort.leave(member)
