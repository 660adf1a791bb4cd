"""A chat message, before any template turns it into tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Speaker = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True)
class Message:
    """``name`` and ``call_id`` are those of the call that a message of the role `tool` answers."""

    role: Speaker
    content: str
    name: str = ""
    call_id: str = ""
