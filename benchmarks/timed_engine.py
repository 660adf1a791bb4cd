"""An engine that takes the time of a real one and answers what a script says.

Rows decode as in continuous batching: after a latency each row decodes at its own speed, or slower where all rows
together would exceed the speed of the whole. Training takes the time of its tokens. No weights, no processor: what a
loop needs beyond this engine's time is its own.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from spadework.engines.base import Datum, ForwardBackward, OptimStep, Sample, SamplingParams, StopReason
from spadework.learning.loss import PolicyLoss
from spadework.seeding import generator

SCORE_SHARE = 1 / 3
"""What a forward pass takes of a forward and a backward pass."""


@dataclass(frozen=True)
class Speed:
    """What an engine can do. ``total_tokens_per_s`` is of all rows together, ``step_s`` is one optimiser step."""

    latency_s: float = 0.0
    row_tokens_per_s: float = math.inf
    total_tokens_per_s: float = math.inf
    train_tokens_per_s: float = math.inf
    step_s: float = 0.0


class Decoding:
    """Rows that are decoded together, each to a given number of tokens. Times are seconds from any origin.

    All rows are equally fast at any moment, so that the tokens which a row would have decoded since the beginning say
    when each of them ends.
    """

    def __init__(self, speed: Speed) -> None:
        self._speed = speed
        self._ends: list[tuple[float, int]] = []
        self._decoded = 0.0
        self._now = 0.0
        self._next_row = 0

    def add(self, now: float, tokens: int) -> int:
        """A new row's number. Whatever ended before ``now`` must have been taken."""
        self._advance(now)
        self._next_row += 1
        heapq.heappush(self._ends, (self._decoded + tokens, self._next_row))
        return self._next_row

    def next_end(self) -> float | None:
        """When the next row ends if none is added; None without rows."""
        if not self._ends:
            return None
        rate = self._rate()
        return self._now if math.isinf(rate) else self._now + max(0.0, self._ends[0][0] - self._decoded) / rate

    def take(self, now: float) -> list[tuple[int, float]]:
        """Rows that have ended by ``now``, and when."""
        taken = []
        while (end := self.next_end()) is not None and end <= now:
            self._advance(end)
            self._decoded = max(self._decoded, self._ends[0][0])
            taken.append((heapq.heappop(self._ends)[1], end))
        return taken

    def _advance(self, now: float) -> None:
        rate = self._rate()
        if self._ends and not math.isinf(rate):
            self._decoded += rate * (now - self._now)
        self._now = now

    def _rate(self) -> float:
        return min(self._speed.row_tokens_per_s, self._speed.total_tokens_per_s / max(1, len(self._ends)))


def shortest_s(chains: Iterable[Sequence[int]], speed: Speed) -> float:
    """What the engine itself needs for ``chains``, all begun at once: lengths of replies that follow each other."""
    decoding = Decoding(speed)
    waiting = [list(reversed(chain)) for chain in chains if chain]
    arrivals = [(speed.latency_s, number) for number in range(len(waiting))]
    chain_of: dict[int, int] = {}
    now = 0.0
    while arrivals or chain_of:
        end = decoding.next_end()
        if arrivals and (end is None or arrivals[0][0] <= end):
            now, number = heapq.heappop(arrivals)
            chain_of[decoding.add(now, waiting[number].pop())] = number
            continue
        assert end is not None
        now = end
        for row, _ in decoding.take(now):
            number = chain_of.pop(row)
            if waiting[number]:
                heapq.heappush(arrivals, (now + speed.latency_s, number))
    return now


class Script(Protocol):
    """What is said. Replies follow from the new part of the prompt, the number of the turn and the sample's seed."""

    def reply(self, new_ids: Sequence[int], turn: int, seed: int) -> tuple[int, ...]:
        """Token ids, the stop token included."""
        ...


@dataclass
class Needed:
    """Seconds that the engine needed, were it asked without delay, by what it was asked for."""

    seconds: dict[str, float] = field(default_factory=dict)
    tokens: int = 0
    turns: int = 0

    def total(self) -> float:
        return sum(self.seconds.values())

    def add(self, what: str, seconds: float) -> None:
        self.seconds[what] = self.seconds.get(what, 0.0) + seconds


class TimedEngine:
    """``stage`` names what is going on; ``needed`` is counted under it. ``scripting_s`` is the script's own time.

    ``peaks`` has the most requests in flight of each cohort, beside its size.
    """

    def __init__(self, script: Script, speed: Speed) -> None:
        self.policy_version = 0
        self.stage = ""
        self.needed = Needed()
        self.peaks: list[tuple[int, int]] = []
        self.scripting_s = 0.0
        self._script = script
        self._speed = speed

    @asynccontextmanager
    async def cohort(self, size: int) -> AsyncIterator[TimedCohort]:
        cohort = TimedCohort(self, self._script, self._speed, size)
        stage = self.stage
        yield cohort
        self.peaks.append((cohort.peak, size))
        self.needed.add(stage, shortest_s(cohort.chains, self._speed))
        self.needed.tokens += sum(map(sum, cohort.chains))
        self.needed.turns += sum(map(len, cohort.chains))

    async def score(self, data: Sequence[Datum], *, reference: bool = False) -> tuple[tuple[float, ...], ...]:
        await self._train(data, SCORE_SHARE)
        return tuple(datum.logprobs_T for datum in data)

    async def forward_backward(self, data: Sequence[Datum], loss: PolicyLoss) -> ForwardBackward:
        await self._train(data, 1.0)
        return ForwardBackward(0.0, tuple(datum.logprobs_T for datum in data), 0.0, 1.0)

    async def optim_step(self, learning_rate: float) -> OptimStep:
        await self._take(self._speed.step_s)
        self.policy_version += 1
        return OptimStep(1.0, True, self.policy_version)

    async def save(self, directory: Path) -> None:
        (directory / "version").write_text(str(self.policy_version))

    async def load(self, directory: Path) -> None:
        self.policy_version = int((directory / "version").read_text())

    async def export(self, directory: Path) -> None:
        await self.save(directory)

    async def _train(self, data: Sequence[Datum], share: float) -> None:
        tokens = sum(len(datum.token_ids_T) for datum in data)
        await self._take(share * tokens / self._speed.train_tokens_per_s)

    async def _take(self, seconds: float) -> None:
        self.needed.add(self.stage, seconds)
        await asyncio.sleep(seconds)


class TimedCohort:
    """Nobody waits for the others: a reply comes when its tokens are decoded. ``chains`` has each member's replies."""

    def __init__(self, engine: TimedEngine, script: Script, speed: Speed, size: int) -> None:
        self.chains: list[list[int]] = [[] for _ in range(size)]
        self.peak = 0
        self._engine = engine
        self._script = script
        self._speed = speed
        self._seen = [0] * size
        self._in_flight = 0
        self._loop = asyncio.get_running_loop()
        self._decoding = Decoding(speed)
        self._rows: dict[int, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def sample(self, member: int, prompt_ids: Sequence[int], params: SamplingParams) -> Sample:
        self._in_flight += 1
        self.peak = max(self.peak, self._in_flight)
        began = time.thread_time()
        ids = self._script.reply(prompt_ids[self._seen[member] :], len(self.chains[member]), params.seed)
        cut, ids = len(ids) > params.max_tokens, ids[: params.max_tokens]
        # Real ones have 32 bits, which is what their size in the pool depends on.
        logprobs = tuple((-generator(params.seed, "logprobs").random(len(ids), dtype=np.float32)).tolist())
        self.chains[member].append(len(ids))
        self._seen[member] = len(prompt_ids) + len(ids)
        self._engine.scripting_s += time.thread_time() - began
        await asyncio.sleep(self._speed.latency_s)
        await self._decode(len(ids))
        self._in_flight -= 1
        stop = StopReason.LENGTH if cut else StopReason.STOP
        return Sample(ids, logprobs, stop, self._engine.policy_version)

    def leave(self, member: int) -> None:
        """Nobody waits for anybody."""

    async def _decode(self, tokens: int) -> None:
        self._end_rows()
        done: asyncio.Future[None] = self._loop.create_future()
        self._rows[self._decoding.add(self._loop.time(), tokens)] = done
        self._wait_for_next()
        await done

    def _end_rows(self) -> None:
        for row, _ in self._decoding.take(self._loop.time()):
            done = self._rows.pop(row)
            if not done.done():
                done.set_result(None)
        self._wait_for_next()

    def _wait_for_next(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        end = self._decoding.next_end()
        self._timer = None if end is None else self._loop.call_at(end, self._end_rows)
