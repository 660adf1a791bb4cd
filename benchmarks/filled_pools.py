"""Pools as long runs leave them, written through the store itself, and iterations of the real loop on top of them.

What fills a pool is made up and as small as it may be: what grows with a pool is its rows and their indexes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from timed_run import Recorder
from trail_policy import TrailPolicy

from spadework.config import Config
from spadework.curriculum.corpus import open_corpus
from spadework.curriculum.measuring import measures_of
from spadework.curriculum.skills import skill_of_slot, skills_of_round
from spadework.learning.delay import DelayBuffer
from spadework.loop.cast import open_cast
from spadework.loop.interruption import Interruption
from spadework.loop.sandboxes import Sandboxes
from spadework.loop.state import LoopState
from spadework.roles.episode import Arm, Episode, EpisodeEnd, Turn
from spadework.sandbox.outcomes import Outcome
from spadework.seeding import generator
from spadework.selfplay import SelfPlay
from spadework.store.glossary import GATES
from spadework.store.metrics import MetricsLog
from spadework.store.pool import Pool
from spadework.store.records import (
    AttemptRecord,
    DocumentRecord,
    EnvironmentRecord,
    EpisodeRecord,
    GateRow,
    IterationRecords,
)
from spadework.store.run_directory import RunDirectory

SHINGLES = 400
PLAYS = 1
VM_STEPS = 1000
"""Instructions of SQLite's machine that are counted at a time."""


def fill(path: Path, config: Config, rounds: range, family: tuple[int, ...] = ()) -> None:
    """Add whole rounds to the run in ``path``, with `PLAYS` plays per environment, arm and iteration.

    Programs have nothing in common; with ``family``, each shares every fourth of its bands: a designer that repeats
    itself.
    """
    with RunDirectory.create_or_open(path, config) as run, Pool.open(run.pool) as pool:
        for round_ in rounds:
            for records in _round(config, round_, family):
                pool.write(records)


def _round(config: Config, round_: int, family: tuple[int, ...]) -> Iterator[IterationRecords]:
    curriculum = config.curriculum
    rng = generator(round_, "filling")
    active = skills_of_round(round_, curriculum.skills, curriculum.skills_per_round)
    first = round_ * curriculum.round_iterations
    environments = tuple(
        _environment(round_, first, slot, skill_of_slot(slot, active), rng, family)
        for slot in range(curriculum.environments)
    )
    difficulty = {one.id: float(rng.random()) for one in environments}
    for iteration in range(first, first + curriculum.round_iterations):
        is_first = iteration == first
        episodes = tuple(
            _episode(one.id, arm, int(rng.integers(2**31)), iteration, float(rng.random() > difficulty[one.id]))
            for one in environments
            for arm in (tuple(Arm) if is_first else (Arm.PLAIN,))
            for _ in range(PLAYS)
        )
        yield IterationRecords(
            iteration,
            round_,
            documents=tuple(_document(one) for one in environments) if is_first else (),
            attempts=tuple(_attempt(one) for one in environments) if is_first else (),
            environments=environments if is_first else (),
            episodes=episodes,
            measures=measures_of(episodes, round_),
        )


def _environment(
    round_: int, iteration: int, slot: int, skill: str, rng: np.random.Generator, family: tuple[int, ...]
) -> EnvironmentRecord:
    name = f"{round_}/{slot}"
    own = rng.integers(-(2**63), 2**63, size=10, dtype=np.int64).tolist()
    shared = rng.random(len(family)) < 0.25
    return EnvironmentRecord(
        id=hashlib.sha256(name.encode()).hexdigest(),
        round=round_,
        iteration=iteration,
        slot=slot,
        skill=skill,
        document_id=f"filling/{name}",
        class_name=f"Filling{slot}Env",
        source=f"class Filling{slot}Env:\n    # {name}\n    ...\n",
        hint=f"Nothing helps in {name}.",
        summary=f"- nothing is done in {name}",
        fingerprint=hashlib.sha256(f"print {name}".encode()).hexdigest(),
        shingles=tuple(np.sort(rng.integers(0, 2**64, size=SHINGLES, dtype=np.uint64)).tolist()),
        bands=tuple(family[place] if family and shared[place] else band for place, band in enumerate(own)),
    )


def _document(environment: EnvironmentRecord) -> DocumentRecord:
    return DocumentRecord(environment.document_id, "Filling", "filling", f"The text of {environment.document_id}.")


def _attempt(environment: EnvironmentRecord) -> AttemptRecord:
    return AttemptRecord(
        iteration=environment.iteration,
        round=environment.round,
        slot=environment.slot,
        attempt=0,
        skill=environment.skill,
        document_id=environment.document_id,
        prompt_tokens=1,
        reply_tokens=1,
        reply=environment.source,
        status="accepted",
        environment_id=environment.id,
        gates=tuple(GateRow(gate, True, "", 0.0) for gate in GATES),
    )


def _episode(environment_id: str, arm: Arm, seed: int, iteration: int, value: float) -> EpisodeRecord:
    episode = Episode(
        environment_id=environment_id,
        arm=arm,
        seed=seed,
        end=EpisodeEnd.TERMINATED,
        outcome=Outcome.OK,
        turns=(Turn("?", "!", "!", value),),
        token_ids_T=(1, 2, 3),
        sampled_T=(False, True, True),
        logprobs_T=(0.0, -1.0, -1.0),
    )
    return EpisodeRecord(iteration, episode, value)


@dataclass(frozen=True)
class Asked:
    """What iterations asked of the pool: statements with their values filled in, and instructions they took."""

    statements: tuple[str, ...]
    instructions: int
    rows: tuple[Mapping[str, float], ...]


def iterate_on(
    path: Path, config: Config, policy: TrailPolicy, recorder: Recorder, rounds: int, *, trace: bool = False
) -> Asked:
    """Two rounds of the real loop on the pool of ``path``, which has so many ``rounds``."""
    return asyncio.run(_iterate_on(path, config, policy, recorder, rounds, trace))


async def _iterate_on(
    path: Path, config: Config, policy: TrailPolicy, recorder: Recorder, rounds: int, trace: bool
) -> Asked:
    first = rounds * config.curriculum.round_iterations
    statements: list[str] = []
    instructions = 0

    def count() -> None:
        nonlocal instructions
        instructions += VM_STEPS

    with RunDirectory.create_or_open(path, config) as run, Pool.open(run.pool) as pool:
        if trace:
            pool._connection.set_trace_callback(statements.append)
        pool._connection.set_progress_handler(count, VM_STEPS)
        with MetricsLog.open(run.metrics, after=first - 1) as metrics, Interruption(None) as interruption:
            async with (
                open_cast(config, recorder.engine, policy.rendering, run.replies, recorder.message) as cast,
                Sandboxes(config.sandbox) as sandboxes,
            ):
                loop = SelfPlay(
                    run=run,
                    config=config,
                    engine=recorder.engine,
                    observer=recorder,
                    cast=cast,
                    corpus=open_corpus(config.corpus),
                    sandboxes=sandboxes,
                    state=LoopState(DelayBuffer(config.curriculum.round_iterations)),
                    pool=pool,
                    metrics=metrics,
                    interruption=interruption,
                )
                recorder.started(first, config.iterations)
                for iteration in range(first, first + 2 * config.curriculum.round_iterations):
                    await loop.iterate(iteration, None)
    return Asked(tuple(statements), instructions, tuple(recorder.iterations))
