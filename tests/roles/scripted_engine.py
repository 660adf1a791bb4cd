"""An engine whose replies a script writes: real tokens, real lockstep, no model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from spadework.engines.base import Datum, ForwardBackward, OptimStep, Sample, SamplingParams, StopReason
from spadework.learning.loss import PolicyLoss
from spadework.roles.rendering import Rendering
from spadework.seeding import generator

Script = Callable[[int, str, SamplingParams], str]
"""(member, text of the prompt, parameters) -> text of the reply."""


@dataclass
class ScriptedEngine:
    rendering: Rendering
    script: Script
    policy_version: int = 0
    batches: list[tuple[int, ...]] = field(default_factory=list)
    prompts: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    @asynccontextmanager
    async def cohort(self, size: int) -> AsyncIterator[ScriptedCohort]:
        cohort = ScriptedCohort(self, set(range(size)))
        yield cohort
        assert not cohort.live, f"members {sorted(cohort.live)} never left"

    async def score(self, data: Sequence[Datum], *, reference: bool = False) -> tuple[tuple[float, ...], ...]:
        raise NotImplementedError

    async def forward_backward(self, data: Sequence[Datum], loss: PolicyLoss) -> ForwardBackward:
        raise NotImplementedError

    async def optim_step(self, learning_rate: float) -> OptimStep:
        raise NotImplementedError

    async def save(self, directory: Path) -> None:
        raise NotImplementedError

    async def load(self, directory: Path) -> None:
        raise NotImplementedError

    async def export(self, directory: Path) -> None:
        raise NotImplementedError

    def reply(self, member: int, prompt_ids: Sequence[int], params: SamplingParams) -> Sample:
        self.prompts.append((member, tuple(prompt_ids)))
        self.seeds.append(params.seed)
        text = self.script(member, self.rendering.decode(prompt_ids), params)
        ids = (*self.rendering.encode(text), self.rendering.stop_ids[0])
        stop = StopReason.STOP if len(ids) <= params.max_tokens else StopReason.LENGTH
        ids = ids[: params.max_tokens]
        logprobs = tuple(-generator(params.seed, "logprobs").random(len(ids)))
        return Sample(ids, logprobs, stop, self.policy_version)


@dataclass
class ScriptedCohort:
    engine: ScriptedEngine
    live: set[int]
    waiting: dict[int, tuple[Sequence[int], SamplingParams, asyncio.Future[Sample]]] = field(default_factory=dict)

    async def sample(self, member: int, prompt_ids: Sequence[int], params: SamplingParams) -> Sample:
        assert member in self.live and member not in self.waiting
        answer: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        self.waiting[member] = (prompt_ids, params, answer)
        self._sample_when_all_wait()
        return await answer

    def leave(self, member: int) -> None:
        self.live.discard(member)
        self._sample_when_all_wait()

    def _sample_when_all_wait(self) -> None:
        if self.live and self.waiting.keys() == self.live:
            waiting, self.waiting = self.waiting, {}
            self.engine.batches.append(tuple(sorted(waiting)))
            for member in sorted(waiting):
                prompt_ids, params, answer = waiting[member]
                if not answer.done():
                    answer.set_result(self.engine.reply(member, prompt_ids, params))
