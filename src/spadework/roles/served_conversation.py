"""What passes between an agent at an endpoint and an environment: messages of the API one way, an action the other way.

Calls come as the server read them off the model's reply. One that is not exactly right is answered with what is wrong
about it, as for a model of our own. Every call in the history has its result and every result its call, as servers
demand it, whatever the program answered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Protocol

from spadework.engines.chat import ChatCall, ChatReply, as_chat
from spadework.environment.actions import ActionFormat, TextFormat, outside_thinking, parse_action
from spadework.environment.tool_calls import Call, ToolMessage
from spadework.environment.tool_formats import MAX_CALLS, ToolReply, read_arguments
from spadework.roles.conversation import decoded
from spadework.roles.prompts import PromptStyle
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind

ChatMessages = list[Mapping[str, Any]]

_NAME = re.compile(r"[\w-]{1,64}", re.ASCII)
"""What servers take for the name of a function in the history."""
_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_NAMELESS = "unknown"


class ServedConversation(Protocol):
    """One episode's. Observations may raise EnvironmentFault."""

    @property
    def tools(self) -> tuple[Mapping[str, Any], ...]:
        """Schemas that the model is sent."""
        ...

    def messages(self, observation: str, hint: str | None, turn: int) -> ChatMessages:
        """All that the model is shown of the episode up to ``observation``, which is that before turn ``turn``."""
        ...

    def take(self, reply: ChatReply, turn: int) -> str:
        """Remember a reply. Returns it as a text, for the record."""
        ...

    def action(self) -> str:
        """What the environment is stepped with after the last reply."""
        ...


@dataclass
class ServedText:
    """With a game."""

    prompts: PromptStyle
    format: TextFormat
    tools: tuple[Mapping[str, Any], ...] = ()
    said: list[tuple[str, str]] = field(default_factory=list)

    def messages(self, observation: str, hint: str | None, turn: int) -> ChatMessages:
        if turn == 0:
            new = self.prompts.agent_messages(observation, hint, self.format)
        else:
            new = [self.prompts.observation_message(observation)]
        self.said += [(message.role, message.content) for message in new]
        return list(as_chat(self.said))

    def take(self, reply: ChatReply, turn: int) -> str:
        self.said.append(("assistant", reply.text))
        return reply.text

    def action(self) -> str:
        return parse_action(self.said[-1][1], self.format).action


@dataclass
class ServedTools:
    """With a tool environment. ``reply`` is the last one; ``read`` has a call for each of its calls."""

    prompts: PromptStyle
    tools: tuple[Mapping[str, Any], ...] = ()
    history: ChatMessages = field(default_factory=list)
    reply: ChatReply = field(default_factory=lambda: ChatReply("", False, None))
    read: ToolReply = field(default_factory=lambda: ToolReply((), ""))
    ids: set[str] = field(default_factory=set)
    """Of all calls of the episode."""

    def messages(self, observation: str, hint: str | None, turn: int) -> ChatMessages:
        found = decoded(observation, first=turn == 0)
        if turn == 0:
            self.tools = found.tools
            opening = self.prompts.agent_messages("\n\n".join(found.told), hint, "tool_call")
            self.history += as_chat([(message.role, message.content) for message in opening])
        else:
            self.history += self._exchange(found.messages)
        return list(self.history)

    def take(self, reply: ChatReply, turn: int) -> str:
        self.reply = replace(reply, calls=reply.calls[:MAX_CALLS])
        calls = tuple(self._call(call, f"call_{turn + 1}_{number}") for number, call in enumerate(self.reply.calls, 1))
        text, _ = outside_thinking(reply.text)
        self.read = ToolReply(calls, text.strip())
        blocks = (
            f'<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}\n</tool_call>'
            for call in self.reply.calls
        )
        return "\n".join(part for part in (reply.text, *blocks) if part)

    def action(self) -> str:
        return self.read.action

    def _call(self, call: ChatCall, own_id: str) -> Call:
        identity = call.id if _ID.fullmatch(call.id) else own_id
        free = (f"{own_id}_{number}" for number in count(2))
        while identity in self.ids:
            identity = next(free)
        self.ids.add(identity)
        return replace(read_arguments(call.name, call.arguments), id=identity)

    def _exchange(self, answer: Sequence[ToolMessage]) -> ChatMessages:
        """The last reply with those of its calls that were answered, their results, and what the user says."""
        results = {message.id: message for message in reversed(answer) if message.role == "tool"}
        both = [
            (call, written)
            for call, written in zip(self.read.calls, self.reply.calls, strict=True)
            if call.id in results
        ]
        if len(both) < len(results):
            raise EnvironmentFault(FaultKind.CONTRACT, "the program answered a call that was not made")
        said: dict[str, Any] = {"role": "assistant", "content": self.reply.text}
        if both:
            said["tool_calls"] = [
                {"id": call.id, "type": "function", "function": _function(call, written)} for call, written in both
            ]
        told = [{"role": message.role, "content": message.content} for message in answer if message.role == "user"]
        return [
            said,
            *({"role": "tool", "tool_call_id": call.id, "content": results[call.id].content} for call, _ in both),
            *told,
        ]


def served_conversation(prompts: PromptStyle, format: ActionFormat) -> ServedConversation:
    return ServedTools(prompts) if format == "tool_call" else ServedText(prompts, format)


def _function(call: Call, written: ChatCall) -> dict[str, str]:
    """As it was written if it could be read; servers refuse histories whose arguments are no JSON."""
    name = written.name if _NAME.fullmatch(written.name) else _NAMELESS
    return {"name": name, "arguments": "{}" if call.problem else written.arguments}
