"""The pool's database: its tables, its version, and how it is opened.

Tables refer to an environment by its row number; `environment.id` holds the program's id once. `band` is the inverted
index of near-duplicate search and is stored in key order.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from spadework.store.errors import StoreError

APPLICATION_ID = 0x53504457
SCHEMA_VERSION = 3
OLDEST_READ = 2
"""Of turns without the weights that sampled them; such a pool is read and not written."""
BUSY_TIMEOUT_S = 30.0

SCHEMA = """
CREATE TABLE iteration (
    iteration INTEGER PRIMARY KEY,
    round INTEGER NOT NULL
) STRICT;

CREATE TABLE document (
    id TEXT PRIMARY KEY,
    iteration INTEGER NOT NULL,
    title TEXT NOT NULL,
    source TEXT NOT NULL,
    text BLOB NOT NULL
) STRICT;
CREATE INDEX document_iteration ON document (iteration);

CREATE TABLE environment (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    iteration INTEGER NOT NULL,
    round INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    skill TEXT NOT NULL,
    document_id TEXT NOT NULL,
    class_name TEXT NOT NULL,
    source BLOB NOT NULL,
    hint TEXT NOT NULL,
    summary TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    shingles BLOB NOT NULL,
    bands BLOB NOT NULL,
    measures TEXT NOT NULL
) STRICT;
CREATE INDEX environment_iteration ON environment (iteration);
CREATE INDEX environment_round ON environment (round, slot);
CREATE INDEX environment_skill ON environment (skill, round);
CREATE INDEX environment_fingerprint ON environment (fingerprint);

CREATE TABLE band (
    value INTEGER NOT NULL,
    environment INTEGER NOT NULL REFERENCES environment (row) ON DELETE CASCADE,
    PRIMARY KEY (value, environment)
) STRICT, WITHOUT ROWID;
CREATE INDEX band_environment ON band (environment);

CREATE TABLE attempt (
    row INTEGER PRIMARY KEY,
    iteration INTEGER NOT NULL,
    round INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    skill TEXT NOT NULL,
    document_id TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    reply_tokens INTEGER NOT NULL,
    reply BLOB NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    rejected_by TEXT,
    environment_id TEXT,
    hint_tokens INTEGER NOT NULL,
    positives TEXT NOT NULL,
    negatives TEXT NOT NULL,
    UNIQUE (round, slot, attempt)
) STRICT;
CREATE INDEX attempt_counts ON attempt (iteration, attempt, status, rejected_by);
CREATE INDEX attempt_environment ON attempt (environment_id) WHERE environment_id IS NOT NULL;

CREATE TABLE gate (
    attempt INTEGER NOT NULL REFERENCES attempt (row) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    gate TEXT NOT NULL,
    passed INTEGER NOT NULL,
    reason TEXT NOT NULL,
    seconds REAL NOT NULL,
    details TEXT NOT NULL,
    PRIMARY KEY (attempt, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE episode (
    row INTEGER PRIMARY KEY,
    iteration INTEGER NOT NULL,
    environment INTEGER NOT NULL REFERENCES environment (row) ON DELETE CASCADE,
    arm TEXT NOT NULL,
    seed INTEGER NOT NULL,
    end TEXT NOT NULL,
    outcome TEXT NOT NULL,
    turns INTEGER NOT NULL,
    value REAL,
    fault_kind TEXT,
    fault_reason TEXT NOT NULL,
    transcript BLOB NOT NULL,
    tokens BLOB NOT NULL,
    sampled BLOB NOT NULL,
    logprobs BLOB NOT NULL
) STRICT;
CREATE INDEX episode_environment ON episode (environment, arm, iteration, seed);
CREATE INDEX episode_iteration ON episode (iteration);

CREATE TABLE measure (
    environment INTEGER NOT NULL REFERENCES environment (row) ON DELETE CASCADE,
    iteration INTEGER NOT NULL,
    arm TEXT NOT NULL,
    round INTEGER NOT NULL,
    plays INTEGER NOT NULL,
    wins INTEGER NOT NULL,
    mean_return REAL,
    stderr REAL,
    faults INTEGER NOT NULL,
    PRIMARY KEY (environment, iteration, arm)
) STRICT, WITHOUT ROWID;
CREATE INDEX measure_iteration ON measure (iteration);
"""


@contextmanager
def one_sentence(path: Path) -> Iterator[None]:
    """Turn what SQLite says about a database that cannot be used into a StoreError."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.OperationalError as error:
        text = str(error)
        if "full" in text:
            raise StoreError(
                f"the pool {path} could not be written: {text}; free space and give the same command again"
            ) from error
        raise StoreError(f"the pool {path} cannot be used: {text}; check that it exists and may be read") from error
    except sqlite3.DatabaseError as error:
        raise StoreError(
            f"the pool {path} is not a readable database ({error}); restore it from a copy or start a new run"
        ) from error


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the pool, creating it if there is none. Raises StoreError."""
    with one_sentence(path):
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # A checkpoint must never be newer than the pool, even after a power failure.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            if _is_new(connection):
                _create(connection)
            _require_version(connection, path, SCHEMA_VERSION)
        except BaseException:
            connection.close()
            raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open the pool read-only; works while another process writes it. Raises StoreError."""
    if not path.is_file():
        raise StoreError(f"there is no pool at {path}; give the directory of a run that has started")
    uri = f"{path.resolve().as_uri()}?mode=ro"
    with one_sentence(path):
        try:
            return _opened(uri, path)
        except sqlite3.OperationalError:
            # Reading a WAL database writes its index beside it. On a read-only medium that cannot be; but as long as a
            # run writes its pool there is a log, so without one the file is as it will stay.
            if path.with_name(path.name + "-wal").exists():
                raise
            return _opened(f"{uri}&immutable=1", path)


def _opened(uri: str, path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, timeout=BUSY_TIMEOUT_S, uri=True)
    try:
        _require_version(connection, path, OLDEST_READ)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _is_new(connection: sqlite3.Connection) -> bool:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return int(tables) == 0 and _pragma(connection, "application_id") == 0


def _create(connection: sqlite3.Connection) -> None:
    connection.executescript(
        f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION_ID};"
        f" PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def _require_version(connection: sqlite3.Connection, path: Path, oldest: int) -> None:
    application, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is a database of another program, not a spadework pool; give the directory of a run")
    if not oldest <= version <= SCHEMA_VERSION:
        raise StoreError(
            f"the pool {path} has schema version {version} and this spadework reads version {SCHEMA_VERSION}; "
            "open it with the spadework that wrote it or start a new run"
        )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    with closing(connection.execute(f"PRAGMA {name}")) as cursor:
        return int(cursor.fetchone()[0])
