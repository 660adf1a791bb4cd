"""The short form of the prompts, which the seed model was started on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spadework.environment.actions import ActionFormat
from spadework.roles.messages import Message

if TYPE_CHECKING:
    from spadework.curriculum.documents import Document
    from spadework.curriculum.memory import Memory
    from spadework.roles.prompts import Difficulty


def designer_messages(skill: str, document: Document, memory: Memory, difficulty: Difficulty) -> list[Message]:
    """Skill, document, and the hints of remembered environments: a hint says in one sentence what a game is about."""
    lines = [f"design {difficulty}: {skill}", document.text]
    lines += [f"vary: {example.hint}" for example in memory.positives]
    lines += [f"avoid: {example.hint}" for example in memory.negatives]
    return [Message("user", "\n".join(lines))]


def repair_messages(gate: str, reason: str) -> list[Message]:
    return [Message("user", f"repair {gate}: {reason}")]


def hint_messages(source: str) -> list[Message]:
    return [Message("user", f"hint:\n{source}")]


def agent_messages(observation: str, hint: str | None, action_format: ActionFormat) -> list[Message]:
    return [Message("user", observation if hint is None else f"{observation}\nHINT: {hint}")]


def observation_message(observation: str) -> Message:
    return Message("user", observation)
