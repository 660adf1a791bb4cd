"""What a run tells whoever watches it, while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol


class Stage(StrEnum):
    """The parts of an iteration, in order. Each has its seconds under `time/`."""

    DESIGN = "design"
    """Environments of the round are written, checked and given hints."""
    PLAY = "play"
    """Every environment is played, by both arms in a round's first iteration."""
    UPDATE = "update"
    """Returns become advantages and the weights are updated."""
    EVALUATION = "evaluation"
    """Held-out items are played."""
    STORE = "store"
    """The iteration is added to the pool."""
    CHECKPOINT = "checkpoint"
    """Weights and state are written, after the line of metrics: that line has the seconds of the one before."""


class Observer(Protocol):
    """Is told what happens, in order. It must return quickly and must not raise.

    ``iteration`` counts from 0; the held-out evaluation before the first belongs to iteration -1.
    """

    def started(self, first_iteration: int, iterations: int) -> None:
        """The run goes from ``first_iteration`` (above 0 if it is taken up again) to ``iterations`` - 1."""
        ...

    def stage_started(self, iteration: int, stage: Stage) -> None: ...

    def stage_ended(self, iteration: int, stage: Stage, seconds: float) -> None:
        """A stage may come several times in an iteration; each time is told."""
        ...

    def iteration_ended(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """``metrics`` is the line that was logged; `store.glossary` explains every name."""
        ...

    def message(self, text: str) -> None:
        """One sentence that a person should see."""
        ...


class Silent:
    """An observer that nobody watches."""

    def started(self, first_iteration: int, iterations: int) -> None: ...

    def stage_started(self, iteration: int, stage: Stage) -> None: ...

    def stage_ended(self, iteration: int, stage: Stage, seconds: float) -> None: ...

    def iteration_ended(self, iteration: int, metrics: Mapping[str, float]) -> None: ...

    def message(self, text: str) -> None: ...
