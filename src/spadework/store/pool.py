"""Writing the pool: whole iterations, and taking them back."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Self

from spadework.store.errors import StoreError
from spadework.store.reader import PoolReader
from spadework.store.records import (
    AttemptRecord,
    DocumentRecord,
    EnvironmentRecord,
    EpisodeRecord,
    IterationRecords,
    Measure,
)
from spadework.store.rows import (
    ATTEMPT_COLUMNS,
    ENVIRONMENT_COLUMNS,
    attempt_row,
    environment_row,
    pack_json,
    pack_text,
    printable,
    transcript_row,
    unpack_text,
)
from spadework.store.schema import one_sentence, open_for_writing


class Pool(PoolReader):
    """The pool of the process that runs the loop; there is one such process per run directory."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the pool for writing, creating it if there is none. Raises StoreError."""
        return cls(path, open_for_writing(path))

    def write(self, records: IterationRecords) -> None:
        """Add an iteration in one transaction: all of it or, if anything is wrong with it, nothing.

        Raises StoreError if the iteration is not later than every written one, if its records name another iteration,
        or if they contradict the pool (an environment twice, an episode of an unknown environment).
        """
        self._require_consistent(records)
        with one_sentence(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._insert(records)
                self._connection.execute("COMMIT")
            except sqlite3.IntegrityError as error:
                self._rollback()
                raise StoreError(
                    f"iteration {records.iteration} contradicts the pool {self.path} ({error}) and was not written"
                ) from error
            except BaseException:
                self._rollback()
                raise

    def rollback_to(self, iteration: int) -> None:
        """Forget everything of later iterations, so that the run continues after ``iteration`` (-1: from the start).

        Raises StoreError if the pool ends before ``iteration``: it then does not belong to that checkpoint.
        """
        last = self.last_iteration()
        if iteration >= 0 and (last is None or last < iteration):
            ends = "is empty" if last is None else f"ends at iteration {last}"
            raise StoreError(
                f"the pool {self.path} {ends} but the checkpoint is of iteration {iteration}; "
                "restore the whole run directory from one copy or start a new run"
            )
        with one_sentence(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for table in ("episode", "measure", "attempt", "environment", "document", "iteration"):
                    self._connection.execute(f"DELETE FROM {table} WHERE iteration > ?", (iteration,))
                self._connection.execute("COMMIT")
            except BaseException:
                self._rollback()
                raise

    def _require_consistent(self, records: IterationRecords) -> None:
        last = self.last_iteration()
        if last is not None and records.iteration <= last:
            raise StoreError(
                f"iteration {records.iteration} cannot be written to {self.path}, which already has iteration {last}; "
                "roll the pool back first"
            )
        groups: tuple[tuple[AttemptRecord | EnvironmentRecord | EpisodeRecord | Measure, ...], ...]
        groups = (records.attempts, records.environments, records.episodes, records.measures)
        for record in (record for group in groups for record in group):
            if record.iteration != records.iteration:
                raise StoreError(
                    f"a {type(record).__name__} of iteration {record.iteration} cannot be written with iteration "
                    f"{records.iteration}"
                )

    def _insert(self, records: IterationRecords) -> None:
        self._connection.execute("INSERT INTO iteration VALUES (?, ?)", (records.iteration, records.round))
        for document in records.documents:
            self._insert_document(records.iteration, document)
        for environment in records.environments:
            self._insert_environment(environment)
        for attempt in records.attempts:
            self._insert_attempt(attempt)
        for episode in records.episodes:
            self._insert_episode(episode)
        for m in records.measures:
            self._connection.execute(
                "INSERT INTO measure VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(self._environment_row(m.environment_id), m.iteration, m.arm.value, m.round),
                    *(m.plays, m.wins, m.mean_return, m.stderr, m.faults),
                ),
            )

    def _insert_document(self, iteration: int, document: DocumentRecord) -> None:
        known = self._all("SELECT text FROM document WHERE id = ?", document.id)
        if not known:
            self._connection.execute(
                "INSERT INTO document (id, iteration, title, source, text) VALUES (?, ?, ?, ?, ?)",
                (document.id, iteration, printable(document.title), document.source, pack_text(document.text)),
            )
        elif unpack_text(known[0][0]) != document.text:
            raise StoreError(
                f"document {document.id!r} has another text than when the pool {self.path} first saw it; "
                "give back the corpus as it was or start a new run"
            )

    def _insert_environment(self, environment: EnvironmentRecord) -> None:
        row = self._connection.execute(
            f"INSERT INTO environment ({ENVIRONMENT_COLUMNS}) VALUES ({_marks(14)})",
            tuple(environment_row(environment)),
        ).lastrowid
        self._connection.executemany("INSERT INTO band VALUES (?, ?)", [(value, row) for value in environment.bands])

    def _insert_attempt(self, attempt: AttemptRecord) -> None:
        row = self._connection.execute(
            f"INSERT INTO attempt ({ATTEMPT_COLUMNS}, rejected_by) VALUES ({_marks(16)})", tuple(attempt_row(attempt))
        ).lastrowid
        self._connection.executemany(
            "INSERT INTO gate VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (row, number, str(v.gate), int(v.passed), printable(v.reason), v.seconds, pack_json(v.details))
                for number, v in enumerate(attempt.gates)
            ],
        )

    def _insert_episode(self, record: EpisodeRecord) -> None:
        episode = record.episode
        self._connection.execute(
            "INSERT INTO episode (iteration, environment, arm, seed, end, outcome, turns, value, fault_kind,"
            f" fault_reason, transcript, tokens, sampled, logprobs) VALUES ({_marks(14)})",
            (
                *(record.iteration, self._environment_row(episode.environment_id), episode.arm.value, episode.seed),
                *(episode.end.value, episode.outcome.value, len(episode.turns), record.value),
                None if episode.fault_kind is None else episode.fault_kind.value,
                printable(episode.fault_reason),
                *transcript_row(episode),
            ),
        )

    def _environment_row(self, environment_id: str) -> int:
        rows = self._all("SELECT row FROM environment WHERE id = ?", environment_id)
        if not rows:
            raise StoreError(
                f"environment {environment_id[:12]} is not in the pool {self.path}; write it before its plays"
            )
        return int(rows[0][0])

    def _rollback(self) -> None:
        # SQLite has already rolled back by itself if the disk was full.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def _marks(count: int) -> str:
    return ", ".join("?" * count)
