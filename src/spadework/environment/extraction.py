"""Find the program in a designer's reply."""

from __future__ import annotations

import re

from spadework.environment.program import ProgramRejected, Rejection

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[A-Za-z0-9_+-]*)(?P<rest>[^`]*)")
_PYTHON = ("python", "python3", "py")
_OPEN, _CLOSE = "<think>", "</think>"


def extract_program(reply: str) -> str:
    """The text of the last complete fenced Python block outside thinking, or else of the last that names no language.

    Thinking is `<think>…</think>`, or everything up to a `</think>` that ends or starts its line if the opening tag
    was part of the prompt. Fences may be of backticks or tildes, of any length from three, and indented.

    Raises ProgramRejected with kind `truncated` if thinking or any fenced block was never closed, and `no-program`
    if there is no such block.
    """
    blocks: dict[bool, str] = {}
    thinking = False
    fence: re.Match[str] | None = None
    body: list[str] = []
    for line in _after_prompted_thinking(reply).split("\n"):
        line = line.removesuffix("\r")
        if fence is not None:
            if _closes(line, fence["mark"]):
                language = fence["language"].lower()
                if language in _PYTHON or not (language or fence["rest"].strip()):
                    blocks[bool(language)] = "\n".join(body) + "\n"
                fence, body = None, []
            else:
                body.append(line.removeprefix(fence["indent"]))
            continue
        thinking, outside = _leave_thinking(line, thinking)
        if not thinking and (match := _FENCE.fullmatch(outside)):
            fence = match
    if thinking:
        raise ProgramRejected(Rejection.TRUNCATED, "the reply is truncated: its thinking was never closed")
    if fence is not None:
        raise ProgramRejected(
            Rejection.TRUNCATED, f"the reply is truncated: its last {fence['mark']} block was never closed"
        )
    if not blocks:
        raise ProgramRejected(Rejection.NO_PROGRAM, "the reply has no fenced ```python block outside its thinking")
    return blocks[max(blocks)]


def _after_prompted_thinking(reply: str) -> str:
    """Cut thinking whose opening tag was in the prompt. A `</think>` inside a line of code is no such end."""
    first_close = reply.find(_CLOSE)
    if first_close < 0 or 0 <= reply.find(_OPEN) < first_close:
        return reply
    start = reply.rfind("\n", 0, first_close) + 1
    end = reply.find("\n", first_close)
    line = reply[start : end if end >= 0 else len(reply)].strip()
    if line.startswith(_CLOSE) or line.endswith(_CLOSE):
        return reply[first_close + len(_CLOSE) :]
    return reply


def _leave_thinking(line: str, thinking: bool) -> tuple[bool, str]:
    """Whether thinking is open at the end of ``line``, and the part of ``line`` after the last end of thinking."""
    position = 0
    outside = line
    while True:
        tag = _CLOSE if thinking else _OPEN
        found = line.find(tag, position)
        if found < 0:
            return thinking, outside
        position = found + len(tag)
        thinking = not thinking
        outside = line[position:]


def _closes(line: str, mark: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(mark) and set(stripped) == {mark[0]}
