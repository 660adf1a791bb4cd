"""Reading the pool: every question is answered from an index, also while another process writes.

Not covered: anything that needs the whole pool. Diversity and other analyses walk it round by round.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spadework.roles.episode import Arm, EpisodeEnd
from spadework.sandbox.outcomes import Outcome
from spadework.store.errors import StoreError
from spadework.store.records import (
    AttemptRecord,
    DocumentRecord,
    EnvironmentRecord,
    EpisodeRecord,
    EpisodeSummary,
    GateRow,
    Measure,
    PlayProfile,
    Standing,
)
from spadework.store.rows import (
    ATTEMPT_COLUMNS,
    ENVIRONMENT_COLUMNS,
    attempt_record,
    environment_record,
    episode_of_rows,
    unpack_text,
)
from spadework.store.schema import one_sentence, open_for_reading
from spadework.store.standings import standing

_MEASURE = "e.id, m.iteration, m.round, m.arm, m.plays, m.wins, m.mean_return, m.stderr, m.faults"
SHOWN_CANDIDATES = 8
EVER = 2**62
MAX_SHARING = 1000
"""A designer that repeats itself puts all its programs into few bands; the search must not slow down with them."""


class PoolReader:
    """Queries. Open one with `PoolReader.open`; it is a context manager.

    Raises StoreError for what cannot be read or is not there.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> Self:
        return cls(path, open_for_reading(path))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def last_iteration(self) -> int | None:
        """The last iteration that was written, or None in an empty pool."""
        row = self._one("SELECT max(iteration) FROM iteration")
        return None if row[0] is None else int(row[0])

    def last_round(self) -> int | None:
        row = self._one("SELECT max(round) FROM environment")
        return None if row[0] is None else int(row[0])

    def document(self, document_id: str) -> DocumentRecord:
        rows = self._all("SELECT id, title, source, text FROM document WHERE id = ?", document_id)
        if not rows:
            raise StoreError(
                f"the pool {self.path} has no document {document_id!r}; see an attempt for the id of its own"
            )
        return DocumentRecord(rows[0][0], rows[0][1], rows[0][2], unpack_text(rows[0][3]))

    def environment(self, prefix: str) -> EnvironmentRecord:
        """The environment whose id starts with ``prefix``. Raises StoreError naming candidates unless there is one."""
        prefix = prefix.lower()
        end = prefix + "g"
        rows = self._all(
            "SELECT id, class_name, round FROM environment WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
            prefix,
            end,
            SHOWN_CANDIDATES + 1,
        )
        if len(rows) == 1:
            return self._environment(rows[0][0])
        if rows:
            listed = ", ".join(f"{id_[:12]} ({name}, round {round_})" for id_, name, round_ in rows[:SHOWN_CANDIDATES])
            more = " and more" if len(rows) > SHOWN_CANDIDATES else ""
            raise StoreError(f"several environments start with {prefix!r}: {listed}{more}; give more of the id")
        latest = self._all("SELECT id, class_name, round FROM environment ORDER BY row DESC LIMIT ?", SHOWN_CANDIDATES)
        listed = ", ".join(f"{id_[:12]} ({name}, round {round_})" for id_, name, round_ in latest) or "none at all"
        raise StoreError(f"no environment of {self.path} starts with {prefix!r}; the latest are: {listed}")

    def environments(self, round_: int) -> tuple[EnvironmentRecord, ...]:
        """The environments of a round, by slot."""
        rows = self._all(f"SELECT {ENVIRONMENT_COLUMNS} FROM environment WHERE round = ? ORDER BY slot", round_)
        return tuple(environment_record(row) for row in rows)

    def attempts(self, round_: int) -> tuple[AttemptRecord, ...]:
        """The attempts of a round, by slot and attempt, with their gates."""
        return self._attempts("round = ? ORDER BY slot, attempt", round_)

    def attempt_of(self, environment_id: str) -> AttemptRecord:
        """The attempt that became this environment."""
        found = self._attempts("environment_id = ?", environment_id)
        if not found:
            raise StoreError(f"the pool {self.path} has no attempt that became environment {environment_id[:12]}")
        return found[0]

    def attempt_counts(
        self, first: int = 0, last: int = EVER, *, first_attempts_only: bool = False
    ) -> dict[tuple[str, str | None], int]:
        """How many attempts of iterations [first, last] ended as (status, rejecting gate or None)."""
        rows = self._all(
            "SELECT status, rejected_by, count(*) FROM attempt WHERE iteration BETWEEN ? AND ? AND attempt <= ?"
            " GROUP BY status, rejected_by ORDER BY status, rejected_by",
            first,
            last,
            0 if first_attempts_only else EVER,
        )
        return {(status, gate): count for status, gate, count in rows}

    def episodes(self, environment_id: str, arm: Arm | None = None) -> tuple[EpisodeSummary, ...]:
        """The episodes of an environment, by arm, iteration and seed."""
        arms = tuple(Arm) if arm is None else (arm,)
        rows: list[tuple[Any, ...]] = []
        for one in arms:
            rows += self._all(
                "SELECT p.row, p.iteration, e.id, p.arm, p.seed, p.end, p.outcome, p.turns, p.value"
                " FROM environment e JOIN episode p ON p.environment = e.row WHERE e.id = ? AND p.arm = ?"
                " ORDER BY p.iteration, p.seed, p.row",
                environment_id,
                one.value,
            )
        return tuple(_episode_summary(row) for row in rows)

    def episode(self, row: int) -> EpisodeRecord:
        """The whole of one episode by its row number."""
        rows = self._all(
            "SELECT e.id, p.iteration, p.value, p.arm, p.seed, p.end, p.outcome, p.fault_kind, p.fault_reason,"
            " p.transcript, p.tokens, p.sampled, p.logprobs"
            " FROM episode p JOIN environment e ON e.row = p.environment WHERE p.row = ?",
            row,
        )
        if not rows:
            raise StoreError(f"the pool {self.path} has no episode {row}; list the episodes of an environment first")
        id_, iteration, value, *rest = rows[0]
        return EpisodeRecord(iteration, episode_of_rows(id_, tuple(rest[:6]), tuple(rest[6:])), value)

    def twin(self, fingerprint: str) -> str | None:
        """The id of the first environment with this exact fingerprint."""
        rows = self._all("SELECT id FROM environment WHERE fingerprint = ? ORDER BY row LIMIT 1", fingerprint)
        return rows[0][0] if rows else None

    def alike(self, bands: Sequence[int], limit: int) -> tuple[tuple[str, bytes], ...]:
        """Id and shingles (little-endian, unsigned, 64 bits) of environments that share bands, most shared first.

        Of those that share one band the newest `MAX_SHARING` are looked at.
        """
        newest = f"SELECT environment FROM band WHERE value = ? ORDER BY environment DESC LIMIT {MAX_SHARING}"
        sharing = " UNION ALL ".join([f"SELECT * FROM ({newest}) found_by_band"] * len(bands))
        rows = self._all(
            f"SELECT e.id, e.shingles FROM (SELECT environment, count(*) AS shared FROM ({sharing}) found_by_any"
            " GROUP BY environment ORDER BY shared DESC, environment LIMIT ?) found"
            " JOIN environment e ON e.row = found.environment ORDER BY found.shared DESC, e.row",
            *bands,
            limit,
        )
        return tuple((id_, shingles) for id_, shingles in rows)

    def measures(self, environment_id: str) -> tuple[Measure, ...]:
        """What was measured of an environment, by iteration and arm."""
        rows = self._all(
            f"SELECT {_MEASURE} FROM environment e JOIN measure m ON m.environment = e.row"
            " WHERE e.id = ? ORDER BY m.iteration, m.arm",
            environment_id,
        )
        return tuple(_measure(row) for row in rows)

    def measures_of_iteration(self, iteration: int) -> tuple[Measure, ...]:
        """What an iteration measured, by round, slot and arm of the environments."""
        rows = self._all(
            f"SELECT {_MEASURE} FROM measure m JOIN environment e ON e.row = m.environment"
            " WHERE m.iteration = ? ORDER BY e.round, e.slot, m.arm",
            iteration,
        )
        return tuple(_measure(row) for row in rows)

    def standings(self, skill: str, first_round: int, last_round: int = EVER) -> tuple[Standing, ...]:
        """Where the environments of a skill from these rounds stand, by id; only those that were measured."""
        rows = self._all(
            f"SELECT e.class_name, e.round, {_MEASURE} FROM environment e JOIN measure m ON m.environment = e.row"
            " WHERE e.skill = ? AND e.round BETWEEN ? AND ?",
            skill,
            first_round,
            last_round,
        )
        grouped: dict[str, list[Measure]] = defaultdict(list)
        heads: dict[str, tuple[str, int]] = {}
        for name, round_, *measure in rows:
            one = _measure(measure)
            grouped[one.environment_id].append(one)
            heads[one.environment_id] = (name, round_)
        return tuple(standing(id_, heads[id_][1], heads[id_][0], grouped[id_]) for id_ in sorted(grouped))

    def play_profile(self, environment_id: str) -> PlayProfile:
        """How the plain plays of an environment went."""
        rows = self._all(
            "SELECT p.seed, p.turns, p.end FROM environment e JOIN episode p ON p.environment = e.row"
            " WHERE e.id = ? AND p.arm = ?",
            environment_id,
            Arm.PLAIN.value,
        )
        ends: dict[str, int] = defaultdict(int)
        for _, _, end in rows:
            ends[end] += 1
        turns = [turns for _, turns, end in rows if end != EpisodeEnd.FAULT]
        return PlayProfile(
            instances=len({seed for seed, _, _ in rows}),
            mean_turns=sum(turns) / len(turns) if turns else None,
            ends=dict(sorted(ends.items())),
        )

    def _environment(self, environment_id: str) -> EnvironmentRecord:
        row = self._one(f"SELECT {ENVIRONMENT_COLUMNS} FROM environment WHERE id = ?", environment_id)
        return environment_record(tuple(row))

    def _attempts(self, condition: str, value: object) -> tuple[AttemptRecord, ...]:
        rows = self._all(f"SELECT row, {ATTEMPT_COLUMNS} FROM attempt WHERE {condition}", value)
        return tuple(attempt_record(tuple(row[1:]), self._gates(row[0])) for row in rows)

    def _gates(self, attempt: int) -> tuple[GateRow, ...]:
        rows = self._all(
            "SELECT gate, passed, reason, seconds, details FROM gate WHERE attempt = ? ORDER BY position", attempt
        )
        return tuple(GateRow(gate, bool(passed), why, s, json.loads(details)) for gate, passed, why, s, details in rows)

    def _all(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with one_sentence(self.path):
            return self._connection.execute(query, values).fetchall()

    def _one(self, query: str, *values: object) -> tuple[Any, ...]:
        return self._all(query, *values)[0]


def _measure(row: Sequence[Any]) -> Measure:
    id_, iteration, round_, arm, plays, wins, mean, stderr, faults = row
    return Measure(id_, iteration, round_, Arm(arm), plays, wins, mean, stderr, faults)


def _episode_summary(row: Sequence[Any]) -> EpisodeSummary:
    number, iteration, id_, arm, seed, end, outcome, turns, value = row
    return EpisodeSummary(number, iteration, id_, Arm(arm), seed, EpisodeEnd(end), Outcome(outcome), turns, value)
