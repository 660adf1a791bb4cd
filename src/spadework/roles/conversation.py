"""What passes between the agent and an environment, as tokens one way and as an action the other way.

Games answer with texts, and the agent's reply holds one action. Tool environments answer with messages (results of
calls, and what the user says), and the agent's reply holds calls. `play_episode` knows neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from spadework.environment.actions import TextFormat, parse_action
from spadework.environment.tool_calls import NotToolObservation, ToolObservation, decode_observation
from spadework.roles.prompts import PromptStyle
from spadework.roles.rendering import Ids, Rendering
from spadework.roles.tool_rendering import ToolRendering
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind


class Conversation(Protocol):
    """One episode's. Observations may raise EnvironmentFault: a tool environment answers in a notation."""

    def first_prompt(self, observation: str, hint: str | None) -> Ids: ...

    def reply_text(self, sampled_ids: Sequence[int]) -> str:
        """The text in which `action` finds what the environment is stepped with."""
        ...

    def thinking_end(self, sampled_ids: Sequence[int]) -> Ids | None:
        """See `Rendering.thinking_end`."""
        ...

    def action(self, reply: str, turn: int) -> str:
        """What the environment is stepped with. ``turn`` counts from 0."""
        ...

    def next_prompt(self, prompt_ids: Sequence[int], sampled_ids: Sequence[int], observation: str) -> Ids: ...


class TextConversation:
    """With a game."""

    def __init__(self, rendering: Rendering, prompts: PromptStyle, format: TextFormat) -> None:
        self._rendering = rendering
        self._prompts = prompts
        self._format: TextFormat = format

    def first_prompt(self, observation: str, hint: str | None) -> Ids:
        return self._rendering.first_prompt(self._prompts.agent_messages(observation, hint, self._format))

    def reply_text(self, sampled_ids: Sequence[int]) -> str:
        return self._rendering.reply_text(sampled_ids)

    def thinking_end(self, sampled_ids: Sequence[int]) -> Ids | None:
        return self._rendering.thinking_end(sampled_ids, calls=False)

    def action(self, reply: str, turn: int) -> str:
        return parse_action(reply, self._format).action

    def next_prompt(self, prompt_ids: Sequence[int], sampled_ids: Sequence[int], observation: str) -> Ids:
        return self._rendering.next_prompt(prompt_ids, sampled_ids, [self._prompts.observation_message(observation)])


class ToolConversation:
    """With a tool environment."""

    def __init__(self, rendering: ToolRendering, prompts: PromptStyle) -> None:
        self._rendering = rendering
        self._prompts = prompts
        self._tools: tuple[dict[str, Any], ...] = ()

    def first_prompt(self, observation: str, hint: str | None) -> Ids:
        opening = decoded(observation, first=True)
        self._tools = opening.tools
        messages = self._prompts.agent_messages("\n\n".join(opening.told), hint, "tool_call")
        return self._rendering.rendering.first_prompt(messages, self._tools)

    def reply_text(self, sampled_ids: Sequence[int]) -> str:
        return self._rendering.rendering.reply_with_calls(sampled_ids)

    def thinking_end(self, sampled_ids: Sequence[int]) -> Ids | None:
        return self._rendering.rendering.thinking_end(sampled_ids, calls=True)

    def action(self, reply: str, turn: int) -> str:
        return self._rendering.read(reply, self._tools, turn).action

    def next_prompt(self, prompt_ids: Sequence[int], sampled_ids: Sequence[int], observation: str) -> Ids:
        return self._rendering.next_prompt(prompt_ids, sampled_ids, decoded(observation).messages)


def decoded(observation: str, first: bool = False) -> ToolObservation:
    """What a tool environment says. Raises EnvironmentFault."""
    try:
        return decode_observation(observation, first)
    except NotToolObservation as error:
        raise EnvironmentFault(FaultKind.CONTRACT, f"the program sent {error}") from None
