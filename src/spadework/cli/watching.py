"""Whoever watches a run in a terminal sees a bar; a log gets lines alone. Both get one line per iteration."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from spadework.cli.output import plain
from spadework.cli.output import seconds as span
from spadework.progress import Stage

_DOING: Mapping[Stage, str] = {
    Stage.DESIGN: "designing environments",
    Stage.PLAY: "playing",
    Stage.UPDATE: "updating",
    Stage.EVALUATION: "held-out evaluation",
    Stage.STORE: "storing",
    Stage.CHECKPOINT: "saving a checkpoint",
}
_SHOWN = (
    ("plain", "agent/plain_win_rate"),
    ("hinted", "agent/hinted_win_rate"),
    ("valid", "designer/validity"),
    ("frontier", "environments/frontier"),
    ("held out in-family", "heldout/in_family"),
    ("out-of-family", "heldout/out_of_family"),
)


class Watching:
    """An observer, to be used with `with`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("opening", total=None, left="")
        self._iterations = 0
        self._first = 0
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def started(self, first_iteration: int, iterations: int) -> None:
        self._first, self._iterations = first_iteration, iterations
        self._began = time.monotonic()
        self._progress.update(self._task, total=iterations, completed=first_iteration)
        if first_iteration >= iterations:
            self.message(f"all {iterations} iterations are done")
        elif first_iteration:
            self.message(f"continuing with iteration {first_iteration + 1} of {iterations}")

    def stage_started(self, iteration: int, stage: Stage) -> None:
        self._progress.update(self._task, description=_DOING[stage])

    def stage_ended(self, iteration: int, stage: Stage, seconds: float) -> None: ...

    def iteration_ended(self, iteration: int, metrics: Mapping[str, float]) -> None:
        parts = [f"{name} {metrics[key]:.2f}" for name, key in _SHOWN if key in metrics]
        if metrics.get("learning/skipped"):
            parts.append("nothing to train")
        took = span(metrics["time/iteration_s"])
        if iteration < 0:
            # The time left is told by iterations alone.
            self._began = time.monotonic()
            self.message("  ".join(["before training", took, *parts]))
            return
        done, left = iteration + 1, self._left(iteration + 1)
        self._progress.update(self._task, completed=done, left=left)
        self.message("  ".join([f"iteration {done}/{self._iterations}", took, *parts, left]).rstrip())

    def message(self, text: str) -> None:
        self._console.print(plain(text), soft_wrap=True)

    def _left(self, done: int) -> str:
        each = (time.monotonic() - self._began) / (done - self._first)
        remaining = self._iterations - done
        return f"about {span(each * remaining)} left" if remaining else ""
