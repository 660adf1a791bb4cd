"""Text for reports: nothing that a program, a model or a document wrote can become markup.

HTML is escaped by the template engine; this is what Markdown needs, and what both need.
"""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!&])")
_LINE_START = re.compile(r"^(\d*)([-+=.)])")
_NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Without what is not text: control characters, lone surrogates, and marks that turn the direction of a line."""
    return _NOT_TEXT.sub("\ufffd", text.replace("\r\n", "\n"))


def inline(text: object) -> str:
    """One line of Markdown that reads as ``text``, whatever is in it."""
    line = " ".join(printable(str(text)).split())
    line = _SPECIAL.sub(r"\\\1", line)
    return _LINE_START.sub(r"\1\\\2", line)


def fenced(text: str, language: str = "") -> str:
    """A block of Markdown that shows ``text`` as it is, fences in it included."""
    text = printable(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def excerpt(text: str, limit: int) -> str:
    """At most ``limit`` characters of ``text`` and what was left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit].rstrip()}\n… ({len(text) - limit} more characters)"


def number(value: float | int | None, digits: int = 3) -> str:
    """A number as a person reads it; a dash for None."""
    if value is None:
        return "—"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        return str(int(value))
    if value != 0 and abs(value) < 10**-digits:
        return f"{value:.2e}"
    return f"{value:.{digits}f}"
