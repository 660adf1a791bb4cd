"""Replies in channels, as gpt-oss writes them (harmony): thoughts, answers and calls are messages of their own.

`<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>`: only what stands in
the channel `final` is said. A call goes to `to=functions.NAME` and ends in `<|call|>`. Where a message begins and ends
is read off the ids, so that no text can pose as a mark.

The conversation is appended to like any other. Two things differ from what the template makes of a finished turn, and
nothing else does, which is proven when a rendering is opened: the analysis of earlier turns stays, and a turn ends in
the `<|return|>` that was sampled where the template writes `<|end|>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spadework.roles.messages import Message
from spadework.roles.rendering import Ids, Rendering, RenderingRefused, Tokenizer

if TYPE_CHECKING:
    from renderers import Renderer

_START, _CHANNEL, _MESSAGE, _END = "<|start|>", "<|channel|>", "<|message|>", "<|end|>"
_RETURN, _CALL, _CONSTRAIN = "<|return|>", "<|call|>", "<|constrain|>"
_MARKS = (_START, _CHANNEL, _MESSAGE, _END, _RETURN, _CALL, _CONSTRAIN)
_HEADER = f"{_START}assistant"
_SPEAK = f"{_CHANNEL}final{_MESSAGE}"
_THINKING_TAGS = ("<think>", "</think>")
_CHANNEL_NAME = re.compile(r"\s*([^\s<]*)")
_OPENINGS = (
    (Message("user", "Name a colour."),),
    (Message("system", "Be brief."), Message("user", "Name a colour.")),
)
_TURNS = (("red", "Another one?"), ("Blue, I think:\n\n  azure {x}", '\n 42 <b>\\boxed{7}</b>\n\nAnd "one" more: é✓'))
_NAMELESS = "unknown"


@dataclass(frozen=True)
class Part:
    """One message of a reply. ``close`` is the mark that ended it, empty if none did; ``begun`` if it has a content."""

    channel: str
    recipient: str
    body: str
    close: str
    begun: bool
    header: str

    @property
    def said(self) -> bool:
        return self.begun and self.channel == "final" and not self.recipient

    @property
    def calls(self) -> bool:
        return self.begun and bool(self.recipient)


def speaks_in_channels(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer has all marks of harmony as tokens of their own."""
    return {str(token) for token in tokenizer.added_tokens_decoder.values()} >= set(_MARKS)


def open_channels(tokenizer: Tokenizer, renderer: Renderer, name: str) -> ChannelRendering:
    """Raises RenderingRefused if the template writes replies in another way, or changes more of earlier turns."""
    rendering = ChannelRendering(tokenizer, renderer, name)
    rendering.prove_history()
    return rendering


class ChannelRendering(Rendering):
    """The rendering of a template whose replies are in channels."""

    def __init__(self, tokenizer: Tokenizer, renderer: Renderer, name: str) -> None:
        self._marks = {id: str(token) for id, token in tokenizer.added_tokens_decoder.items() if str(token) in _MARKS}
        self._header = tuple(tokenizer.encode(_HEADER, add_special_tokens=False))
        super().__init__(tokenizer, renderer, name)
        self.thinks = True
        by_name = {mark: id for id, mark in self._marks.items()}
        self.stop_ids = (by_name[_RETURN], by_name[_CALL])
        if self._prompt[-len(self._header) :] != self._header:
            raise RenderingRefused(f"the chat template of {name} opens a reply in another way than {_HEADER!r}")

    def reply_text(self, sampled_ids: Sequence[int]) -> str:
        """What a reply says; all else that it holds, calls included, is given as thinking."""
        return "\n".join(self._shown(part, False) for part in self.parts(sampled_ids))

    def reply_with_calls(self, sampled_ids: Sequence[int]) -> str:
        """As `reply_text`, with calls as `ToolFormat.CHANNELS` has them."""
        return "\n".join(self._shown(part, True) for part in self.parts(sampled_ids))

    def thinking_end(self, sampled_ids: Sequence[int], calls: bool) -> Ids | None:
        """See `Rendering.thinking_end`; an answer is then written into the final channel."""
        mark = self._marks.get(sampled_ids[-1], "") if sampled_ids else ""
        *_, last = (None, *self.parts(sampled_ids))
        if last is not None and last.said:
            return None
        if mark == _END:
            ending = _HEADER
        elif mark == _START:
            ending = _HEADER.removeprefix(_START)
        elif last is None or (calls and last.recipient) or last.channel == "final":
            return None  # a call, or the header of an answer
        elif last.begun:
            ending = f"{_END}{_HEADER}"
        elif last.header == _HEADER.removeprefix(_START):
            ending = ""
        else:
            ending = f"{_MESSAGE}{_END}{_HEADER}"
        return self.encode(ending if calls else f"{ending}{_SPEAK}") or None

    def parts(self, sampled_ids: Sequence[int]) -> Iterator[Part]:
        """The messages of a reply, which begins behind the header that opens it."""
        role, header, body, begun = "assistant", list[int](), list[int](), False
        for token in sampled_ids:
            mark = self._marks.get(token, "")
            if mark in (_END, _RETURN, _CALL, _START):
                if header or begun:
                    yield self._part(role, header, body, begun, mark)
                role, header, body, begun = "", [], [], False
            elif mark == _MESSAGE and not begun:
                begun = True
            else:
                (body if begun else header).append(token)
        if header or begun:
            yield self._part(role, header, body, begun, "")

    def prove_history(self) -> None:
        """Compare a probe conversation with its full render: what is lost there is analysis and `<|return|>` alone."""
        for opening in _OPENINGS if self._takes_system else _OPENINGS[:1]:
            messages: tuple[Message, ...] = opening
            ids = remembered = self._render(messages)
            for reply, question in _TURNS:
                said = f"{_SPEAK}{reply}"
                sampled = self.encode(f"{_CHANNEL}analysis{_MESSAGE}Which one?{_END}{_HEADER}{said}{_RETURN}")
                new = Message("user", question)
                after = self.next_prompt(ids, sampled, (new,))
                remembered = (*remembered, *self.encode(f"{said}{_END}"), *after[len(ids) + len(sampled) :])
                messages = (*messages, Message("assistant", reply), new)
                ids = after
                if self._render(messages) != remembered:
                    raise RenderingRefused(
                        f"the chat template of {self.name} changes more of earlier turns than their analysis and the "
                        f"mark that ended them (before {question!r}), so a conversation cannot grow token by token"
                    )

    def _require_known_parts(self, name: str) -> None:
        if self.decode(self._reply) != f"{_SPEAK}{self._probe.content}{_END}":
            raise RenderingRefused(
                f"the chat template of {name} has the marks of harmony and writes replies in another way "
                f"({self.decode(self._reply)[:80]!r})"
            )

    def _rendered_delta(self, new: Sequence[Message]) -> Ids:
        turns = (token for message in new for token in self._turn(message))
        return (*turns, *self._header)

    def _turn(self, message: Message) -> Ids:
        """The ids of one message behind a finished reply. The template names a result after the call before it."""
        given: dict[str, Any] = {"role": message.role, "content": message.content}
        before: list[dict[str, Any]] = [{"role": "user", "content": _OPENINGS[0][0].content}]
        if message.role == "tool":
            function = {"name": message.name or _NAMELESS, "arguments": {}}
            before.append(
                {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}
            )
            closed = self.render_conversation(before, open=False)
        else:
            before.append({"role": "assistant", "content": self._probe.content})
            closed = (*self._prompt, *self._reply)
        ids = self.render_conversation([*before, given], open=False)
        if ids[: len(closed)] != closed:
            raise RenderingRefused(
                f"the chat template of {self.name} lets {message.content[:60]!r} change what stands before it"
            )
        return ids[len(closed) :]

    def _part(self, role: str, header: list[int], body: list[int], begun: bool, close: str) -> Part:
        text = self.decode(header)
        spoken, _, described = text.partition(_CHANNEL)
        speaker = role or spoken.partition(" ")[0]
        words = f"{spoken} {described}".replace(_CONSTRAIN, " ").split()
        recipient = next((word.removeprefix("to=") for word in words if word.startswith("to=")), "")
        name = _CHANNEL_NAME.match(described)
        channel = name[1] if name else ""
        assistant = speaker == "assistant"
        return Part(
            channel=channel if assistant else "",
            recipient=recipient if assistant else "",
            body=self.decode(body),
            close=close,
            begun=begun,
            header=text,
        )

    def _shown(self, part: Part, calls: bool) -> str:
        if part.said:
            said: str = self._parted(part.body, (*_THINKING_TAGS, *_MARKS) if calls else _THINKING_TAGS)
            return said
        if part.calls and calls:
            to = self._parted(part.recipient, _MARKS)
            header = f"{_CHANNEL}{self._parted(part.channel, _MARKS)} to={to}{_MESSAGE}"
            # JSON may write a letter by its number, and nothing but thoughts may stand between tags.
            body = part.body
            for tag in _THINKING_TAGS:
                body = body.replace(tag, f"\\u003c{tag[1:]}")
            return f"{header}{body}{part.close}"
        noted = f" to={part.recipient}" if part.calls else ""
        label = "" if part.channel == "analysis" and not noted else f"[{part.channel or part.header}{noted}] "
        thought = self._parted(f"{label}{part.body}", (*_THINKING_TAGS, *_MARKS))
        return f"<think>\n{thought}\n</think>\n" if part.close else f"<think>\n{thought}"
