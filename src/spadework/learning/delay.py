"""The delay buffer: a designer's samples wait until the window that judges them is over (paper, delay k)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spadework.learning.batch import TrainingSample


@dataclass(frozen=True)
class PendingSample:
    """A designer's sample whose reward is not known yet. ``key`` names the attempt."""

    key: str
    token_ids_T: tuple[int, ...]
    sampled_T: tuple[bool, ...]
    logprobs_T: tuple[float, ...]
    temperature: float

    def with_advantage(self, advantage: float, *, delayed: bool) -> TrainingSample:
        return TrainingSample(
            token_ids_T=self.token_ids_T,
            sampled_T=self.sampled_T,
            logprobs_T=self.logprobs_T,
            advantage=advantage,
            role="designer",
            temperature=self.temperature,
            key=self.key,
            delayed=delayed,
        )


@dataclass(frozen=True)
class Released:
    """A sample that left the buffer, and the iteration that it was added in."""

    sample: PendingSample
    added: int


class DelayBuffer:
    """Holds samples added in iteration t until iteration t + delay or any later one asks.

    Every sample that was added comes out exactly once: through `due`, or through `flush` at the run's end. The whole
    state is in `state`, for the checkpoint.
    """

    def __init__(self, delay: int) -> None:
        if delay < 0:
            raise ValueError(f"a delay of {delay} iterations; it cannot be negative")
        self._delay = delay
        self._waiting: dict[str, Released] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, iteration: int, samples: Iterable[PendingSample]) -> None:
        """Raises ValueError for a key that already waits; then none of the samples was added."""
        grown = dict(self._waiting)
        for sample in samples:
            if sample.key in grown:
                raise ValueError(f"a sample with the key {sample.key} already waits")
            grown[sample.key] = Released(sample, iteration)
        self._waiting = grown

    def due(self, iteration: int) -> tuple[Released, ...]:
        """Take out everything that was added at least ``delay`` iterations ago, in the order of adding."""
        return self._take([key for key, held in self._waiting.items() if held.added + self._delay <= iteration])

    def flush(self) -> tuple[Released, ...]:
        """Take out everything: after the last iteration the windows that are still open are judged as they are."""
        return self._take(list(self._waiting))

    def state(self) -> dict[str, Any]:
        """Everything, as JSON can hold it; arrays are packed, since a round of designs has half a million tokens."""
        waiting = [{"added": held.added, "sample": _packed(held.sample)} for held in self._waiting.values()]
        return {"delay": self._delay, "waiting": waiting}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> DelayBuffer:
        """The buffer that gave ``state``; equal in every sample and in order."""
        buffer = cls(int(state["delay"]))
        for held in state["waiting"]:
            buffer.add(int(held["added"]), [_unpacked(held["sample"])])
        return buffer

    def _take(self, keys: list[str]) -> tuple[Released, ...]:
        return tuple(self._waiting.pop(key) for key in keys)


def _packed(sample: PendingSample) -> dict[str, Any]:
    return {
        "key": sample.key,
        "temperature": sample.temperature,
        "token_ids_T": _text(np.asarray(sample.token_ids_T, dtype="<i4")),
        "sampled_T": _text(np.packbits(np.asarray(sample.sampled_T, dtype=bool))),
        "logprobs_T": _text(np.asarray(sample.logprobs_T, dtype="<f8")),
    }


def _unpacked(fields: Mapping[str, Any]) -> PendingSample:
    token_ids_T = np.frombuffer(base64.b64decode(fields["token_ids_T"]), dtype="<i4")
    marks = np.frombuffer(base64.b64decode(fields["sampled_T"]), dtype=np.uint8)
    return PendingSample(
        key=fields["key"],
        token_ids_T=tuple(token_ids_T.tolist()),
        sampled_T=tuple(np.unpackbits(marks, count=len(token_ids_T)).astype(bool).tolist()),
        logprobs_T=tuple(np.frombuffer(base64.b64decode(fields["logprobs_T"]), dtype="<f8").tolist()),
        temperature=fields["temperature"],
    )


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")
