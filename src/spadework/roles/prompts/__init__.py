"""What each role is told. `full` is for large models; `seed` is the short form that the seed model was started on.

Where agents call tools, `full` has other words for the designer: those of `tools`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from spadework.environment.actions import ActionFormat
from spadework.roles.messages import Message

if TYPE_CHECKING:
    from spadework.curriculum.documents import Document
    from spadework.curriculum.memory import Memory

Difficulty = Literal["easy", "medium", "hard"]


class PromptStyle(Protocol):
    """The messages of both roles. A module with these functions is a style, or an object with these methods."""

    def designer_messages(
        self, skill: str, document: Document, memory: Memory, difficulty: Difficulty
    ) -> list[Message]:
        """Ask for one environment that trains ``skill`` and is grounded in ``document``."""
        ...

    def worked_examples(self, difficulty: Difficulty) -> tuple[str, ...]:
        """The programs that `designer_messages` shows as examples of the form."""
        ...

    def repair_messages(self, gate: str, reason: str, trace: str) -> list[Message]:
        """Tell the designer why its last program was rejected and ask for the whole program again.

        ``trace`` has a line for each frame of the program in which it failed, the innermost last, or is empty.
        """
        ...

    def hint_messages(self, source: str) -> list[Message]:
        """Ask for a hint to the program; the document is not shown."""
        ...

    def agent_messages(self, observation: str, hint: str | None, action_format: ActionFormat) -> list[Message]:
        """Open an episode with its first observation, and after it the hint if there is one."""
        ...

    def observation_message(self, observation: str) -> Message:
        """Any later observation."""
        ...


def prompt_style(
    name: Literal["full", "seed"], encode: Callable[[str], Sequence[int]], action_format: ActionFormat = "boxed"
) -> PromptStyle:
    """``encode`` gives the ids of a text: the short form shows such words of a document as are one token."""
    match name:
        case "full" if action_format == "tool_call":
            from spadework.roles.prompts import tools

            return tools
        case "full":
            from spadework.roles.prompts import full

            return full
        case "seed":
            from spadework.roles.prompts.seed import SeedPrompts

            return SeedPrompts(encode)
