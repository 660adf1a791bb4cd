"""The held-out items: a fixed, versioned list of programs and seeds, never shown in training."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from spadework.environment.actions import ActionFormat

Suite = Literal["games", "tools"]
VERSIONS: Mapping[Suite, int] = {"games": 2, "tools": 1}
"""Of the lists that are shipped."""
_SHIPPED = Path(__file__).parent / "suites"


class ItemsUnusable(Exception):
    """An item list cannot be read; one sentence that names the file and the place."""


class Split(StrEnum):
    IN_FAMILY = "in-family"
    """Unseen instances of families that the seed model was started on."""
    OUT_OF_FAMILY = "out-of-family"
    """Families that the seed model never saw."""


@dataclass(frozen=True)
class Item:
    """One question: a program and the seed of its instance."""

    id: str
    split: Split
    family: str
    source: str
    seed: int


@dataclass(frozen=True)
class ItemList:
    """``sha256`` is that of the file: two lists with equal digests ask the same."""

    suite: str
    version: int
    sha256: str
    items: tuple[Item, ...]


def suite_file(suite: Suite) -> str:
    """The name of its shipped list."""
    return f"{suite}-v{VERSIONS[suite]}.jsonl"


def suite_of(action_format: ActionFormat) -> Suite:
    """What agents that act in this way are asked."""
    return "tools" if action_format == "tool_call" else "games"


def shipped_items(suite: Suite) -> Path:
    return _SHIPPED / suite_file(suite)


def load_items(path: Path, per_family: int = 0) -> ItemList:
    """Read the list at ``path``; ``per_family`` > 0 keeps the first of each family. Raises ItemsUnusable."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ItemsUnusable(f"the held-out items {path} cannot be read: {error.strerror}") from error
    rows: list[dict[str, object]] = []
    for number, line in enumerate(content.splitlines(), 1):
        try:
            row = json.loads(line)
            rows.append({"suite": str(row["suite"]), "version": int(row["version"])} if number == 1 else row)
        except (ValueError, KeyError, TypeError) as error:
            raise ItemsUnusable(f"line {number} of the held-out items {path} is no item: {error}") from error
    if len(rows) < 2:
        raise ItemsUnusable(f"the held-out items {path} hold a head and at least one item; this file does not")
    seen: Counter[str] = Counter()
    ids: set[str] = set()
    items: list[Item] = []
    for number, row in enumerate(rows[1:], 2):
        try:
            item = Item(
                str(row["id"]), Split(str(row["split"])), str(row["family"]), str(row["source"]), int(str(row["seed"]))
            )
        except (KeyError, ValueError, TypeError) as error:
            raise ItemsUnusable(f"line {number} of the held-out items {path} is no item: {error}") from error
        if item.id in ids:
            raise ItemsUnusable(f"line {number} of the held-out items {path} has the id {item.id!r} of an earlier item")
        ids.add(item.id)
        seen[item.family] += 1
        if per_family == 0 or seen[item.family] <= per_family:
            items.append(item)
    return ItemList(
        str(rows[0]["suite"]), int(str(rows[0]["version"])), hashlib.sha256(content).hexdigest(), tuple(items)
    )
