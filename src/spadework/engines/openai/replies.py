"""Replies by the content of their request, in an SQLite file: what was paid for once is not paid for again.

The key is a digest of what is asked (model, messages, limits, draw), not of where it is served. The digest has the draw
in it, so that attempts that ask the same have replies of their own.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any, Self

from spadework.engines.chat import ChatCall, ChatReply, EndpointError, Usage

_SCHEMA_VERSION = 2
_SCHEMA = (
    """
CREATE TABLE IF NOT EXISTS reply (
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    text TEXT NOT NULL,
    cut INTEGER NOT NULL,
    prompt_tokens INTEGER,
    reply_tokens INTEGER,
    calls TEXT NOT NULL DEFAULT '[]'
) STRICT
""",
    "CREATE TABLE IF NOT EXISTS spent (prompt_tokens INTEGER NOT NULL, reply_tokens INTEGER NOT NULL) STRICT",
)
_FROM_FORMAT_1 = (
    "BEGIN IMMEDIATE",
    "ALTER TABLE reply ADD COLUMN calls TEXT NOT NULL DEFAULT '[]'",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
    "COMMIT",
)
_BUSY_TIMEOUT_S = 30.0


class RepliesUnusable(EndpointError):
    """The file of replies cannot be read or written; one sentence."""


class Replies:
    """Opened by one process at a time; it writes each reply as it comes."""

    def __init__(self, path: Path | None, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path | None) -> Self:
        """The file at ``path``, made if it is not there; None remembers as long as this object lives.

        Raises RepliesUnusable.
        """
        with _one_sentence(path):
            connection = sqlite3.connect(path or ":memory:", timeout=_BUSY_TIMEOUT_S, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                (found,) = connection.execute("PRAGMA user_version").fetchone()
                if found not in (0, 1, _SCHEMA_VERSION):
                    raise RepliesUnusable(f"the replies in {path} have format {found}; remove the file to pay again")
                for statement in _FROM_FORMAT_1 if found == 1 else ():
                    connection.execute(statement)
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
            except BaseException:
                connection.close()
                raise
        return cls(path, connection)

    def find(self, key: str) -> ChatReply | None:
        with _one_sentence(self._path):
            query = "SELECT text, cut, prompt_tokens, reply_tokens, calls FROM reply WHERE key = ?"
            row = self._connection.execute(query, (key,)).fetchone()
        if row is None:
            return None
        text, cut, prompt_tokens, reply_tokens, calls = row
        usage = None if prompt_tokens is None else Usage(prompt_tokens, reply_tokens)
        return ChatReply(text, bool(cut), usage, tuple(ChatCall(*fields) for fields in json.loads(calls)))

    def keep(self, key: str, model: str, reply: ChatReply) -> None:
        counts = (None, None) if reply.usage is None else (reply.usage.prompt_tokens, reply.usage.reply_tokens)
        with _one_sentence(self._path):
            self._connection.execute(
                "INSERT OR REPLACE INTO reply VALUES (?, ?, ?, ?, ?, ?, ?)",
                (key, model, reply.text, reply.cut, *counts, json.dumps([astuple(call) for call in reply.calls])),
            )

    def spend(self, usage: Usage) -> None:
        """Remember what an answer cost that held no reply."""
        with _one_sentence(self._path):
            self._connection.execute("INSERT INTO spent VALUES (?, ?)", (usage.prompt_tokens, usage.reply_tokens))

    def paid(self) -> Usage:
        """For every reply that is kept, and for answers without one."""
        both = "SELECT prompt_tokens, reply_tokens FROM reply UNION ALL SELECT prompt_tokens, reply_tokens FROM spent"
        with _one_sentence(self._path):
            query = f"SELECT coalesce(sum(prompt_tokens), 0), coalesce(sum(reply_tokens), 0) FROM ({both})"
            return Usage(*self._connection.execute(query).fetchone())

    def close(self) -> None:
        self._connection.close()


def key_of(body: Mapping[str, Any], draw: int) -> str:
    """Names a request: ``body`` is what is sent."""
    text = json.dumps({"body": body, "draw": draw}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _one_sentence(path: Path | None) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise RepliesUnusable(
            f"the replies of the endpoint in {path} cannot be used ({error}); make room or remove the file"
        ) from error
