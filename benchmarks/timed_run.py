"""A run of the real loop, sandbox and store with the timed engine, and what was measured of it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cpu_time import family_cpu_s
from timed_engine import Speed, TimedEngine
from trail_policy import TrailPolicy, Wordiness
from transformers import AutoTokenizer

from spadework.config import Config
from spadework.progress import Silent, Stage
from spadework.roles.choosing import open_rendering
from spadework.roles.rendering import Rendering
from spadework.seedmodel.shipped import model_directory
from spadework.selfplay import TrainingSummary, train
from spadework.store.run_directory import RunDirectory

DOCUMENTS = 400
WORDS = tuple(
    "the of a river stone bridge water carries over under north when built until wheel grain lamp salt".split()  # noqa: SIM905
)


def paper_config(corpus: Path, **changes: Any) -> Config:
    """The paper's games run, with documents of ``corpus``; ``changes`` by section."""
    tree: dict[str, Any] = {
        "iterations": 400,
        "model": {"max_context_tokens": 65_536},
        "corpus": {"source": str(corpus)},
        "agent": {"max_turns": 10},
        "designer": {"max_tokens": 20_000},
    }
    for section, values in changes.items():
        tree[section] = {**tree.get(section, {}), **values} if isinstance(values, dict) else values
    return Config.model_validate(tree)


def save_corpus(file: Path, documents: int = DOCUMENTS, words: int = 5_000) -> Path:
    """Documents that are longer than a prompt takes of them."""
    with file.open("w", encoding="utf-8") as out:
        for number in range(documents):
            text = " ".join(WORDS[(number * 31 + index * index) % len(WORDS)] for index in range(words))
            out.write(json.dumps({"title": f"Document {number}", "text": f"{number} {text}"}) + "\n")
    return file


def seed_rendering() -> Rendering:
    """The shipped model's, whose tokens are short: texts have more of them than with a large model."""
    directory = model_directory()
    return open_rendering(AutoTokenizer.from_pretrained(directory), directory, thinking=False)


@dataclass
class Spent:
    """Seconds of wall time, of the engine were it asked without delay, and of processors here and in the sandbox."""

    wall: float = 0.0
    engine: float = 0.0
    host_cpu: float = 0.0
    sandbox_cpu: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.wall + other.wall,
            self.engine + other.engine,
            self.host_cpu + other.host_cpu,
            self.sandbox_cpu + other.sandbox_cpu,
        )


@dataclass
class Recorder(Silent):
    """Adds up what each stage spent. What lies between stages is under `between`."""

    engine: TimedEngine
    stages: dict[str, Spent] = field(default_factory=dict)
    iterations: list[Mapping[str, float]] = field(default_factory=list)
    _mark: tuple[float, float, float, float] | None = None

    def started(self, first_iteration: int, iterations: int) -> None:
        self._switch("between")

    def stage_started(self, iteration: int, stage: Stage) -> None:
        self._switch(stage.value)

    def stage_ended(self, iteration: int, stage: Stage, seconds: float) -> None:
        self._switch("between")

    def iteration_ended(self, iteration: int, metrics: Mapping[str, float]) -> None:
        self.iterations.append(dict(metrics))
        self._switch("between")

    def _switch(self, stage: str) -> None:
        now = (time.perf_counter(), self.engine.needed.total(), time.process_time(), family_cpu_s(os.getpid()))
        if self._mark is not None:
            spent = Spent(*(after - before for after, before in zip(now, self._mark, strict=True)))
            self.stages[self.engine.stage] = self.stages.get(self.engine.stage, Spent()) + spent
        self._mark, self.engine.stage = now, stage


@dataclass(frozen=True)
class Timed:
    engine: TimedEngine
    recorder: Recorder
    summary: TrainingSummary


def timed_run(path: Path, config: Config, speed: Speed, policy: TrailPolicy, recorder: Recorder | None = None) -> Timed:
    """Start or continue the run in ``path``, to its end."""
    engine = TimedEngine(policy, speed) if recorder is None else recorder.engine
    recorder = Recorder(engine) if recorder is None else recorder
    with RunDirectory.create_or_open(path, config) as run:
        summary = asyncio.run(train(run, config, engine, recorder, rendering=policy.rendering, tensorboard=False))
    return Timed(engine, recorder, summary)


__all__ = ["Recorder", "Spent", "Timed", "TrailPolicy", "Wordiness", "paper_config", "save_corpus", "timed_run"]
