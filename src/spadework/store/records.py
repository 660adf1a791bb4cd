"""What the pool keeps, as it crosses the boundary: one frozen dataclass per table.

Every row belongs to the iteration that wrote it. Nothing is ever updated: what is measured of an environment is
a row per iteration and arm, so that taking back an iteration is deleting its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spadework.roles.episode import Arm, Episode, EpisodeEnd
from spadework.sandbox.outcomes import Outcome


class GateVerdict(Protocol):
    """What a gate found. Both the gates' own result and `GateRow` are one."""

    @property
    def gate(self) -> str: ...
    @property
    def passed(self) -> bool: ...
    @property
    def reason(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def details(self) -> Mapping[str, object]: ...


@dataclass(frozen=True)
class GateRow:
    """A gate's verdict as it is read back."""

    gate: str
    passed: bool
    reason: str
    seconds: float
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class DocumentRecord:
    """A document that the designer was shown. ``source`` says which corpus it came from."""

    id: str
    title: str
    source: str
    text: str


@dataclass(frozen=True)
class AttemptRecord:
    """One designer completion, valid or not.

    ``attempt`` counts from 0 within its ``slot`` of the round. ``prompt_tokens``, ``reply_tokens`` and ``hint_tokens``
    (all tries at a hint) are counts. ``positives`` and ``negatives`` are the ids of the environments that it was shown.
    ``status`` names what became of it and ``reason`` says why in one sentence; ``gates`` are in the order they ran.
    ``environment_id`` is set if the attempt became an environment.
    """

    iteration: int
    round: int
    slot: int
    attempt: int
    skill: str
    document_id: str
    prompt_tokens: int
    reply_tokens: int
    reply: str
    status: str
    reason: str = ""
    environment_id: str | None = None
    hint_tokens: int = 0
    positives: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    gates: tuple[GateVerdict, ...] = ()

    @property
    def rejected_by(self) -> str | None:
        """The first gate that said no."""
        return next((verdict.gate for verdict in self.gates if not verdict.passed), None)


@dataclass(frozen=True)
class EnvironmentRecord:
    """A program that passed its gates, with what it was made from.

    ``id`` is the program's id (64 hexadecimal digits). ``fingerprint`` is the digest that its twins share,
    ``shingles`` (unsigned, 64 bits) are what its text is compared by and ``bands`` (signed, 64 bits) find candidates.
    ``measures`` holds what the gates measured of the program.
    """

    id: str
    round: int
    iteration: int
    slot: int
    skill: str
    document_id: str
    class_name: str
    source: str
    hint: str
    summary: str
    fingerprint: str
    shingles: tuple[int, ...] = ()
    bands: tuple[int, ...] = ()
    measures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class EpisodeRecord:
    """One play as it was recorded. ``value`` is its return in [-1, 1], or None for a fault."""

    iteration: int
    episode: Episode
    value: float | None


@dataclass(frozen=True)
class EpisodeSummary:
    """What a list of episodes shows; `PoolReader.episode` reads the whole of one by its ``row``."""

    row: int
    iteration: int
    environment_id: str
    arm: Arm
    seed: int
    end: EpisodeEnd
    outcome: Outcome
    turns: int
    value: float | None


@dataclass(frozen=True)
class Measure:
    """What one iteration measured of one environment in one arm.

    ``plays`` counts the episodes with a return, ``wins`` those with a positive one and ``faults`` those without.
    ``mean_return`` is None without plays and ``stderr`` (standard error of the mean) is None with fewer than two.
    """

    environment_id: str
    iteration: int
    round: int
    arm: Arm
    plays: int
    wins: int
    mean_return: float | None
    stderr: float | None
    faults: int = 0


@dataclass(frozen=True)
class Standing:
    """Where an environment stands by everything measured of it so far; rates are wins per play.

    ``plain_*`` pool all plain plays. ``regret`` is the mean hinted return minus the mean plain return over the
    iterations in which both arms played, and ``regret_stderr`` takes the arms as independent. None: not measured.
    """

    environment_id: str
    round: int
    class_name: str
    plain_plays: int
    plain_wins: int
    plain_mean: float | None
    plain_stderr: float | None
    hinted_plays: int
    hinted_wins: int
    hinted_mean: float | None
    hinted_stderr: float | None
    regret: float | None
    regret_stderr: float | None


@dataclass(frozen=True)
class PlayProfile:
    """How the plain plays of one environment went: distinct seeds, mean turns, how many episodes ended in which way."""

    instances: int
    mean_turns: float | None
    ends: Mapping[str, int]


@dataclass(frozen=True)
class IterationRecords:
    """Everything that one iteration adds to the pool. It is written as a whole or not at all."""

    iteration: int
    round: int
    documents: tuple[DocumentRecord, ...] = ()
    attempts: tuple[AttemptRecord, ...] = ()
    environments: tuple[EnvironmentRecord, ...] = ()
    episodes: tuple[EpisodeRecord, ...] = ()
    measures: tuple[Measure, ...] = ()
