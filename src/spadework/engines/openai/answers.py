"""From what a server answered to a reply, or to a named reason why there is none.

Servers that call themselves compatible differ in their errors. What is decided here is only whether another try may
help, and what the person who runs them can do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from spadework.engines.chat import ChatCall, ChatReply, Usage, printable

MAX_SHOWN_CHARS = 200
OK = 200
TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_TOO_LONG = re.compile(
    r"context.?(length|window|size)|maximum context|prompt is too long|reduce the length|too many tokens|"
    r"max_(completion_)?tokens.{0,3} is too large",
    re.IGNORECASE,
)
_OUT_OF_CREDIT = ("insufficient_quota", "billing_hard_limit_reached")
_NO_TOOLS = re.compile(
    r"(tool|function.?call).{0,60}(support|enabl|not allow|requires? --)|(support|enabl).{0,40}(tool|function.?call)",
    re.IGNORECASE,
)
_API = "endpoint.base_url, which usually ends in /v1"


@dataclass(frozen=True)
class Answer:
    """One HTTP response. ``headers`` have names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class TryAgain(Exception):
    """Another try may help, not before ``after_s`` seconds."""

    def __init__(self, reason: str, after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.after_s = after_s


class Empty(TryAgain):
    """The server works and its answer holds no reply. With ``final`` another try would give the same.

    ``usage`` is on the bill all the same.
    """

    def __init__(self, reason: str, final: bool = False, usage: Usage | None = None) -> None:
        super().__init__(reason)
        self.final = final
        self.usage = usage or Usage()


class Refused(Exception):
    """No further try helps. ``remedy`` continues the sentence."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.remedy = remedy


class TooLong(Exception):
    """The context of the model is too small for the request."""


def read_answer(answer: Answer, tools: bool = False) -> ChatReply:
    """The reply in ``answer``, to a request with ``tools`` or without. Raises TryAgain, Empty, Refused and TooLong."""
    if answer.status != OK:
        raise _error(answer.status, told(answer.body), wait_s(answer.headers), tools)
    value = object_of(answer, _API)
    error = value.get("error")
    if error:
        code = error.get("code") if isinstance(error, dict) else None
        raise _error(code if isinstance(code, int) else 500, told(answer.body), 0.0, tools)
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices:
        raise Empty("the answer has no choices")
    return _choice(choices[0], _usage(value.get("usage")), tools)


def _choice(choice: object, usage: Usage | None, tools: bool) -> ChatReply:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise Empty("the first choice has no message", usage=usage)
    finish, content = choice.get("finish_reason"), message.get("content")
    if finish == "content_filter":
        raise Empty("the server's content filter withheld the reply", final=True, usage=usage)
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    calls = _calls(message.get("tool_calls"), usage) if tools else ()
    if content is None and (finish == "length" or calls):
        content = ""  # its budget ended within the thinking, which some servers keep apart, or there are calls alone
    if not isinstance(content, str):
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            raise Empty(f"the model declined: {shown(refusal)}", final=True, usage=usage)
        raise Empty("the message has no content", usage=usage)
    if finish not in ("stop", "length") and not (calls and finish == "tool_calls"):
        reason = f"the reply ended for the reason {shown(repr(finish))}, neither stop nor length"
        raise Empty(reason, final=True, usage=usage)
    return ChatReply(printable(content), finish == "length", usage, calls)


def _calls(entries: object, usage: Usage | None) -> tuple[ChatCall, ...]:
    """Calls whose fields have no text in them are kept as calls without: whoever reads them says what is wrong."""
    if not entries:
        return ()
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Empty("its tool calls are no list of objects", usage=usage)
    calls: list[ChatCall] = []
    for entry in entries:
        function = entry.get("function")
        if not isinstance(function, dict):
            raise Empty("one of its tool calls is none of a function", usage=usage)
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some servers give the object itself
            arguments = json.dumps(arguments, ensure_ascii=False)
        fields = (entry.get("id"), function.get("name"), arguments)
        calls.append(ChatCall(*(printable(field) if isinstance(field, str) else "" for field in fields)))
    return tuple(calls)


def _usage(value: object) -> Usage | None:
    if not isinstance(value, dict):
        return None
    counts = [value.get("prompt_tokens"), value.get("completion_tokens")]
    if any(type(count) is not int or count < 0 for count in counts):
        return None
    return Usage(*(int(count) for count in counts if count is not None))


def object_of(answer: Answer, setting: str) -> dict[str, Any]:
    """The JSON object in ``answer``. Raises TryAgain, and NotTheApi, which says to check ``setting``."""
    kind = answer.headers.get("content-type", "no content type").partition(";")[0].strip()
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        if "json" in kind:
            raise TryAgain(f"the answer is broken JSON of {len(answer.body)} bytes") from None
        what = "a web page" if "html" in kind else f"{shown(kind)} that is no JSON"
        raise NotTheApi(f"it answered with {what}", f"check {setting}") from None
    if not isinstance(value, dict):
        raise NotTheApi("it answered with JSON that is no object", f"check {setting}")
    return value


class NotTheApi(Refused):
    """What answers is not the API: a wrong address, or something that stands in for a server that is away."""


def _error(status: int, said: tuple[str, str], after_s: float, tools: bool) -> Exception:
    """``said`` are the server's words and its code for the error."""
    words, code = said
    reason = f"it answered {status}" + (f": {words}" if words else "")
    if tools and status in (400, 404, 422, 500, 501) and not _TOO_LONG.search(words):
        if status == 500 and "parse" in words:  # of what the model wrote, and it would write it again
            return Empty(reason, final=True)
        if _NO_TOOLS.search(words):
            return Refused(
                reason,
                "start the server with support for tool calls (vLLM: --enable-auto-tool-choice and --tool-call-parser; "
                "llama.cpp: --jinja) and a model that makes them, or measure the model in games",
            )
    if code in _OUT_OF_CREDIT:
        return Refused(reason, "add credit to the account of the key, then give the same command again")
    if status in TRANSIENT:
        return TryAgain(reason, after_s)
    if status in (401, 403):
        return Refused(reason, "set endpoint.key_variable to the name of an environment variable with a valid key")
    if status == 402:
        return Refused(reason, "add credit to the account of the key, then give the same command again")
    if status in (404, 405):
        return Refused(reason, f"check endpoint.model and {_API}")
    if 300 <= status < 400:
        return Refused(reason, f"it points elsewhere; check {_API}")
    if code == "context_length_exceeded" or status == 413 or _TOO_LONG.search(words):
        return TooLong(reason)
    if "max_completion_tokens" in words:
        return Refused(reason, 'set endpoint.max_tokens_field to "max_completion_tokens"')
    if "temperature" in words:
        return Refused(reason, "set the temperature of the role to one that the model takes")
    if "seed" in words:
        return Refused(reason, "set endpoint.send_seed to false")
    return Refused(reason, f"check endpoint.model and {_API}")


def told(body: bytes) -> tuple[str, str]:
    """The server's words about its error, in one line, and its code for it; each empty if there is none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        text = re.sub(r"<[^>]*>", " ", body[:4000].decode("utf-8", "replace"))
        return shown(text), ""
    error = value.get("error", value) if isinstance(value, dict) else value
    if not isinstance(error, dict):
        return shown(str(error)), ""
    words = error.get("message") or error.get("detail") or ""
    return shown(words if isinstance(words, str) else json.dumps(words)), str(error.get("code") or "")


def wait_s(headers: Mapping[str, str]) -> float:
    """What `Retry-After` asks for, as seconds or as a date; 0 without it."""
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", text):
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def shown(text: str) -> str:
    """``text`` in one line that may stand in a sentence."""
    line = " ".join(printable(text).split())
    line = "".join(char if char.isprintable() else "?" for char in line).rstrip(".")
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[:MAX_SHOWN_CHARS]}…"
