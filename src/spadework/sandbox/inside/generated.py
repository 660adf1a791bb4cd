"""Compiles once what `dataclasses` generates again in every play.

A program is executed anew for each play, and each time `dataclasses` writes the same methods as text and compiles them,
which takes longer than the rest of most programs.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from types import CodeType
from typing import Any

MAX_TEXTS = 512


def remember() -> None:
    """For this process and those that it forks. `dataclasses` calls `exec` by that name."""

    @lru_cache(MAX_TEXTS)
    def compiled(text: str) -> CodeType:
        return compile(text, "<string>", "exec", dont_inherit=True)

    def execute(text: str, namespace: dict[str, Any], names: dict[str, Any]) -> None:
        exec(compiled(text), namespace, names)

    vars(dataclasses)["exec"] = execute
