"""Messages to token ids, once: what was sampled is never rendered or tokenised again.

A conversation grows as ids. The first prompt is rendered; every later prompt is the ids so far followed by the
*delta*, the ids that the template puts between a finished reply and the next one. The `renderers` package knows how
many templates do that; for any other template the delta is read off the template itself. Either way the claim that
appending gives what a full render gives is checked on probe conversations when the rendering is opened, and a
template that rewrites its history is refused: training on ids that the model never saw would be the alternative.

Earlier thinking stays in the conversation (`thinking_retention="all"`), since removing it would be rewriting.
Schemas of tools go through the template as well; `tool_rendering` finds out how a template writes calls and results.
Images are not rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from jinja2 import TemplateError

from spadework.environment.actions import outside_thinking
from spadework.roles.messages import Message

if TYPE_CHECKING:
    from renderers import Renderer

Ids = tuple[int, ...]
Tools = Sequence[Mapping[str, Any]]
"""Function schemas: `{"type": "function", "function": {"name", "description", "parameters"}}`."""

OPENING = (Message("user", "Name a colour."),)
SYSTEM_OPENING = (Message("system", "Be brief."), *OPENING)
REPLIES = ("red", "Blue, I think:\n\n  azure {x}")
OPEN_THINKING = "<think>"
THINKING_REPLIES = tuple(f"{OPEN_THINKING}\nWhich one?\n</think>\n\n{reply}" for reply in REPLIES)
_END_OF_THINKING = "\n</think>\n\n"
_THINKING_MARKS = frozenset((OPEN_THINKING, "</think>"))
_QUESTIONS = ("Another one?", '\n 42 <b>\\boxed{7}</b>\n\nAnd "one" more: é✓')

SWITCHES: Mapping[str, Any] = MappingProxyType({"truncate_history_thinking": False, "date_string": "26 Jul 2024"})
"""For templates that know them: keep earlier thinking (Nemotron); not today's date, with which equal runs would differ
from day to day (Llama, whose own default this date is)."""

PROBE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "paint_wall",
        "description": "Paint a wall.",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"type": "string"}, "coats": {"type": "integer"}},
            "required": ["colour"],
        },
    },
}
"""What templates are tried out with."""

_CONTENTS = ("", "x", "7", " two\n", "\nthree", "\n\n", "!?", "<b> </b>", "é✓", "{'a': [1]}\t", *_QUESTIONS)


class Tokenizer(Protocol):
    """The part of a `transformers` tokenizer that is used here."""

    chat_template: Any
    eos_token_id: int | None
    all_special_tokens: list[str]
    added_tokens_decoder: Mapping[int, Any]

    def __len__(self) -> int: ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str: ...

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> Any: ...


class RenderingRefused(ValueError):
    """The chat template cannot be used: it is missing, or it rewrites its history."""


class Rendering:
    """One tokenizer's chat template, as ids that only grow. Open it with `choosing.open_rendering`."""

    def __init__(self, tokenizer: Tokenizer, renderer: Renderer, name: str) -> None:
        self.name = name
        """The model's name, and the renderer's if it is a hand-written one."""
        self.tokenizer = tokenizer
        self._renderer = renderer
        self._prompt = self._render(OPENING)
        self.opens_thinking = self.decode(self._prompt).rstrip().endswith(OPEN_THINKING)
        """Whether the header of a reply opens its thinking."""
        self.thinks = self.opens_thinking or tells_apart(tokenizer, "enable_thinking", (True, False))
        """Whether the template has a word of thinking."""
        self._probe = Message("assistant", (THINKING_REPLIES if self.opens_thinking else REPLIES)[0])
        full = self._render((*OPENING, self._probe, Message("user", _QUESTIONS[0])))
        self._specials = _special_tokens(tokenizer)
        known = tuple(self._renderer.get_stop_token_ids())
        # Some templates end a turn with a token of their own instead of the end-of-text token.
        ids = (self._encode(token) for token in self._specials)
        end = self._end_of_reply((*known, *(one[0] for one in ids if len(one) == 1)), full[len(self._prompt) :])
        if full[: len(self._prompt)] != self._prompt or end is None:
            raise RenderingRefused(_rewrites(name, "no reply stands between its prompt and a token that ends it"))
        self._reply = full[len(self._prompt) : len(self._prompt) + end + 1]
        self._require_known_parts(name)
        self.stop_ids: Ids = tuple(dict.fromkeys((self._reply[-1], *known)))
        self._takes_system = self._accepts_system()
        self._opening_frame = self._frame(lambda message: self._render([message]))
        self._delta_frame = self._frame(lambda message: self._rendered_delta([message]))
        self._result_marks: tuple[str, ...] = ()

    def first_prompt(self, messages: Sequence[Message], tools: Tools = ()) -> Ids:
        """The ids of ``messages``, of the schemas of ``tools``, and of the header that opens the reply.

        Raises RenderingRefused if the template cannot express them (some know no system role).
        """
        cleaned = [self._without_marks(message) for message in messages]
        if tools:
            return self._render(cleaned, self._parted(list(tools), self._specials))
        return self._framed(self._opening_frame, cleaned) or self._render(cleaned)

    def next_prompt(self, prompt_ids: Sequence[int], sampled_ids: Sequence[int], new: Sequence[Message]) -> Ids:
        """``prompt_ids`` + ``sampled_ids`` + the delta of ``new``; the work is linear in ``new``.

        Raises ValueError if the reply was cut (its last token is no stop token): nothing may follow a cut reply.
        """
        if not sampled_ids or sampled_ids[-1] not in self.stop_ids:
            raise ValueError("a reply that does not end in a stop token was cut: no turn can follow it")
        return (*prompt_ids, *sampled_ids, *self._delta([self._without_marks(m) for m in new]))

    def encode(self, text: str) -> Ids:
        """The ids of plain text, without template or special tokens."""
        return tuple(self._encode(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ``token_ids``, special tokens included."""
        return self.tokenizer.decode(list(token_ids), skip_special_tokens=False)

    def reply_text(self, sampled_ids: Sequence[int]) -> str:
        """The text of a reply without its stop token; thinking is kept."""
        finished = bool(sampled_ids) and sampled_ids[-1] in self.stop_ids
        return self.decode(sampled_ids[:-1] if finished else sampled_ids)

    def reply_with_calls(self, sampled_ids: Sequence[int]) -> str:
        """The text of a reply in which `read_tool_reply` finds its calls."""
        return self.reply_text(sampled_ids)

    def thinking_end(self, sampled_ids: Sequence[int], calls: bool) -> Ids | None:
        """The ids that end the thinking in which a reply stops; None if it does not stop within any.

        With ``calls`` a call may follow as well as an answer.
        """
        opened = OPEN_THINKING if self.opens_thinking else ""
        _, unclosed = outside_thinking(opened + self.decode(sampled_ids))
        return self.encode(_END_OF_THINKING) if unclosed else None

    def prove_append_only(self, replies: Sequence[str]) -> None:
        """Build a probe conversation turn by turn and compare it with its full render.

        Raises RenderingRefused if they differ: the template then rewrites earlier turns.
        """
        openings = (OPENING, SYSTEM_OPENING) if self._takes_system else (OPENING,)
        for opening in openings:
            messages: tuple[Message, ...] = opening
            ids = self._render(messages)
            for reply, question in zip(replies, _QUESTIONS, strict=True):
                messages = (*messages, Message("assistant", reply), Message("user", question))
                full = self._render(messages)
                end = _first_of(self.stop_ids, full[len(ids) :])
                if full[: len(ids)] != ids or end is None:
                    raise RenderingRefused(_rewrites(self.name, f"{reply!r} does not follow its prompt"))
                sampled = full[len(ids) : len(ids) + end + 1]
                written = reply.removeprefix(OPEN_THINKING) if self.opens_thinking else reply
                if "".join(written.split()) not in "".join(self.decode(sampled).split()):
                    raise RenderingRefused(_rewrites(self.name, f"{reply!r} does not stay whole"))
                ids = self.next_prompt(ids, sampled, (Message("user", question),))
                if full != ids:
                    raise RenderingRefused(_rewrites(self.name, f"{question!r} changes what stands before it"))

    def _end_of_reply(self, ends: Sequence[int], ids: Ids) -> int | None:
        """Where the token stands that ends the probe's reply: the first of ``ends`` behind its text."""
        places = (place for place, token in enumerate(ids) if token in ends)
        return next((place for place in places if REPLIES[0] in self.decode(ids[:place])), None)

    def _require_known_parts(self, name: str) -> None:
        """Raises RenderingRefused for replies in channels: the token that ends a channel would end the reply."""
        text = self.decode(self._reply[:-1])
        inside = [token for token in self._specials if token in text and token not in _THINKING_MARKS]
        if inside:
            raise RenderingRefused(
                f"the chat template of {name} divides replies into parts ({', '.join(inside)}), which are not read "
                "here; use a model whose reply is one text"
            )

    def _delta(self, new: Sequence[Message]) -> Ids:
        return self._framed(self._delta_frame, new) or self._rendered_delta(new)

    def _frame(self, render: Callable[[Message], Ids]) -> tuple[str, str] | None:
        """The text that ``render`` puts around one user message, if tokenising it with the message gives equal ids.

        A shortcut of one tokeniser call in place of a full render; it is only taken if it holds for every probe.
        """
        before, _, after = self.decode(render(OPENING[0])).partition(OPENING[0].content)
        holds = all(
            tuple(self._encode(before + content + after)) == render(Message("user", content)) for content in _CONTENTS
        )
        return (before, after) if holds else None

    def _framed(self, frame: tuple[str, str] | None, messages: Sequence[Message]) -> Ids | None:
        if frame is None or len(messages) != 1 or messages[0].role != "user":
            return None
        return tuple(self._encode(frame[0] + messages[0].content + frame[1]))

    def _rendered_delta(self, new: Sequence[Message]) -> Ids:
        """The ids between a finished reply and the next one: those after any finished reply, so after the probe's."""
        closed = (*self._prompt, *self._reply)
        bridge = self._renderer.bridge_to_next_turn(list(self._prompt), list(self._reply), as_dicts(new))
        ids = tuple(bridge.token_ids) if bridge is not None else self._render((*OPENING, self._probe, *new))
        if ids[: len(closed)] != closed:
            raise RenderingRefused(_rewrites(self.name, f"{new[0].content[:60]!r} changes what stands before it"))
        return ids[len(closed) :]

    def render_conversation(self, conversation: list[dict[str, Any]], tools: Tools = (), open: bool = True) -> Ids:
        """The ids of a whole conversation; the header of a reply follows if it is left ``open``.

        Raises RenderingRefused if the template cannot express it.
        """
        options: dict[str, Any] = {"tools": [dict(tool) for tool in tools]} if tools else {}
        try:
            return tuple(self._renderer.render_ids(conversation, add_generation_prompt=open, **options))
        except (TemplateError, ValueError, TypeError) as error:
            roles = ", ".join(str(message["role"]) for message in conversation)
            raise RenderingRefused(f"the chat template of {self.name} rejects the roles {roles}: {error}") from error

    def guard_results(self, tags: Sequence[str]) -> None:
        """From now on ``tags`` are parted in the results of tools: the template puts them around results itself."""
        self._result_marks = tuple(tags)

    def _render(self, messages: Sequence[Message], tools: Tools = ()) -> Ids:
        return self.render_conversation(as_dicts(messages), tools)

    def _accepts_system(self) -> bool:
        try:
            self._render(SYSTEM_OPENING)
        except RenderingRefused:
            return False
        return True

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def _without_marks(self, message: Message) -> Message:
        """Part special tokens where they occur in a text, so that no text can pose as another speaker."""
        marks = (*self._specials, *(self._result_marks if message.role == "tool" else ()))
        texts = {key: self._parted(getattr(message, key), marks) for key in ("content", "name", "call_id")}
        return replace(message, **texts)

    def _parted(self, value: Any, marks: Sequence[str]) -> Any:
        """``value`` with ``marks`` parted in all its texts, keys included."""
        if isinstance(value, str):
            for mark in marks:
                if mark in value:
                    value = value.replace(mark, f"{mark[0]} {mark[1:]}")
            return value
        if isinstance(value, Mapping):
            return {self._parted(key, marks): self._parted(item, marks) for key, item in value.items()}
        return [self._parted(item, marks) for item in value] if isinstance(value, list | tuple) else value


def tells_apart(tokenizer: Tokenizer, switch: str, values: Sequence[object], **given: object) -> bool:
    """Whether the template opens a reply in another way for each of two ``values`` of ``switch``."""
    options = {"add_generation_prompt": True, "tokenize": False, **SWITCHES, **given}
    try:
        one, other = (
            tokenizer.apply_chat_template(as_dicts(OPENING), **{switch: value}, **options) for value in values
        )
    except TemplateError:
        return False  # opening the rendering says so
    return bool(one != other)


def _special_tokens(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Every special token, also those that the tokenizer has without naming them one of its own (Llama's)."""
    marked = (str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
    return tuple(dict.fromkeys(token for token in (*tokenizer.all_special_tokens, *marked) if token))


def _first_of(wanted: Sequence[int], ids: Sequence[int]) -> int | None:
    return next((position for position, token in enumerate(ids) if token in wanted), None)


def as_dicts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [
        {"role": message.role, "content": message.content}
        | ({"name": message.name, "tool_call_id": message.call_id} if message.role == "tool" else {})
        for message in messages
    ]


def _rewrites(name: str, what: str) -> str:
    return (
        f"the chat template of {name} is not append-only ({what}), so a conversation cannot grow token by token; "
        "use a template that keeps earlier turns as they are, or switch thinking off"
    )
