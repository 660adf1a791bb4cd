"""Tool calls in the tokens of a chat template: how the model writes a call, and how results are shown to it.

Both are read off the template: a probe call is rendered, and the format whose reader gives back exactly that call is
the model's. The claims that a conversation with tools needs are checked before anyone plays: schemas are in the prompt,
results are appended without changing what stands before them, and two results of one turn both arrive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from spadework.environment.actions import ActionFormat
from spadework.environment.tool_calls import ToolMessage
from spadework.environment.tool_formats import ToolFormat, ToolReply, read_tool_reply
from spadework.roles.messages import Message
from spadework.roles.rendering import PROBE_TOOL, Ids, Rendering, RenderingRefused, Tools

_NAME = PROBE_TOOL["function"]["name"]
_ARGUMENTS = {"colour": "dark blue", "coats": 2}
_OPENING = {"role": "user", "content": "Paint it."}
_CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "call_1_1", "type": "function", "function": {"name": _NAME, "arguments": _ARGUMENTS}},
    ],
}
_RESULTS = (
    Message("tool", "result one", _NAME, "call_1_1"),
    Message("tool", "result two", _NAME, "call_1_2"),
)
_TAG = re.compile(r"</?[A-Za-z_][\w.|-]*>")


@dataclass(frozen=True)
class ToolRendering:
    """A rendering whose template was found fit for tools, and the ``format`` in which its model writes calls."""

    rendering: Rendering
    format: ToolFormat

    def read(self, reply: str, tools: Tools, turn: int) -> ToolReply:
        """The calls of a reply; see `read_tool_reply`."""
        return read_tool_reply(reply, self.format, tools, turn)

    def next_prompt(self, prompt_ids: Sequence[int], sampled_ids: Sequence[int], new: Sequence[ToolMessage]) -> Ids:
        """``prompt_ids`` + ``sampled_ids`` + what the environment answered; see `Rendering.next_prompt`."""
        return self.rendering.next_prompt(prompt_ids, sampled_ids, as_messages(new))


def as_messages(messages: Sequence[ToolMessage]) -> list[Message]:
    return [Message(message.role, message.content, message.name, message.id) for message in messages]


def open_tool_rendering(rendering: Rendering) -> ToolRendering:
    """Raises RenderingRefused, naming the template and what it lacks, if it cannot be used for tools."""
    prompt = rendering.first_prompt([Message("user", "Paint it.")], [PROBE_TOOL])
    text = rendering.decode(prompt)
    if _NAME not in text or "coats" not in text:
        raise RenderingRefused(
            f"the chat template of {rendering.name} does not show schemas of tools; use a model that was trained on "
            "tool calls, or add them to its template"
        )
    found = ToolRendering(rendering, _format(rendering, prompt))
    _prove_results(rendering, prompt)
    return found


def tools_of(rendering: Rendering, format: ActionFormat) -> ToolRendering | None:
    """What plays in ``format`` need besides ``rendering``. Raises RenderingRefused."""
    return open_tool_rendering(rendering) if format == "tool_call" else None


def _format(rendering: Rendering, prompt: Ids) -> ToolFormat:
    full = rendering.render_conversation([_OPENING, _CALL], [PROBE_TOOL], open=False)
    if full[: len(prompt)] != prompt:
        # Where the template writes something for the model, such as empty thinking, the call is what differs.
        shared = next((i for i, (a, b) in enumerate(zip(full, prompt, strict=False)) if a != b), len(prompt))
        written = full[shared:]
    else:
        written = full[len(prompt) :]
    end = next((place for place, token in enumerate(written, 1) if token in rendering.stop_ids), len(written))
    reply = rendering.reply_with_calls(written[:end])
    for format in ToolFormat:
        calls = read_tool_reply(reply, format, [PROBE_TOOL], 0).calls
        if len(calls) == 1 and (calls[0].name, calls[0].arguments, calls[0].problem) == (_NAME, _ARGUMENTS, ""):
            return format
    raise RenderingRefused(
        f"the chat template of {rendering.name} writes calls in a way that is not known ({reply[:80]!r}); known are "
        f"{', '.join(ToolFormat)}"
    )


def _prove_results(rendering: Rendering, prompt: Ids) -> None:
    """Two results of one turn, and then the user, follow a reply; what the template puts around them is guarded."""
    reply = (*rendering.encode("I paint."), rendering.stop_ids[0])
    for new in (_RESULTS[:1], _RESULTS, (*_RESULTS, Message("user", "And now?"))):
        after = rendering.next_prompt(prompt, reply, new)
        text = rendering.decode(after[len(prompt) + len(reply) :])
        places = [text.find(message.content) for message in new]
        if -1 in places or places != sorted(places):
            raise RenderingRefused(
                f"the chat template of {rendering.name} does not show all results of the calls of one turn"
            )
    shown = rendering.decode(rendering.next_prompt(prompt, reply, _RESULTS)[len(prompt) + len(reply) :])
    rendering.guard_results(list(dict.fromkeys(_TAG.findall(shown))))
