"""Seconds per stage of one iteration."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from spadework.progress import Observer, Stage


class Stopwatch:
    """Measures from its creation on; ``seconds`` adds up what each stage took."""

    def __init__(self, iteration: int, observer: Observer) -> None:
        self.seconds: dict[Stage, float] = {}
        self._iteration = iteration
        self._observer = observer
        self._started = time.perf_counter()

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        self._observer.stage_started(self._iteration, stage)
        started = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - started
            self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
            self._observer.stage_ended(self._iteration, stage, seconds)

    def readings(self) -> dict[str, float]:
        """The metrics under `time/`."""
        total = time.perf_counter() - self._started
        return {**{f"time/{stage}_s": seconds for stage, seconds in self.seconds.items()}, "time/iteration_s": total}
