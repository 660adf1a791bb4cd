"""The short form of the prompts, which the seed model was started on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spadework.environment.actions import ActionFormat
from spadework.roles.messages import Message
from spadework.roles.prompts.keywords import Encode, keywords

if TYPE_CHECKING:
    from spadework.curriculum.documents import Document
    from spadework.curriculum.memory import Memory
    from spadework.roles.prompts import Difficulty


class SeedPrompts:
    """A model of so few parameters can copy the words of a document, not read it: it is shown its keywords."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode

    def designer_messages(
        self, skill: str, document: Document, memory: Memory, difficulty: Difficulty
    ) -> list[Message]:
        """Skill, keywords, and the hints of remembered environments: a hint says in one sentence how to play."""
        words = keywords(document.text, self._encode)
        lines = [f"design {difficulty}: {skill}", "".join(f" {word}" for word in words)]
        lines += [f"vary: {example.hint}" for example in memory.positives]
        lines += [f"avoid: {example.hint}" for example in memory.negatives]
        return [Message("user", "\n".join(lines))]

    def worked_examples(self, difficulty: Difficulty) -> tuple[str, ...]:
        return ()

    def repair_messages(self, gate: str, reason: str, trace: str) -> list[Message]:
        return [Message("user", f"repair {gate}: {reason}")]

    def hint_messages(self, source: str) -> list[Message]:
        return [Message("user", f"hint:\n{source}")]

    def agent_messages(self, observation: str, hint: str | None, action_format: ActionFormat) -> list[Message]:
        return [Message("user", observation if hint is None else f"{observation}\nHINT: {hint}")]

    def observation_message(self, observation: str) -> Message:
        return Message("user", observation)
