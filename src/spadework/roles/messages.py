"""A chat message, before any template turns it into tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Speaker = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True)
class Message:
    role: Speaker
    content: str
