"""Does a text give an argument away at a fixed place?

A *rule* finds one place in a text without knowing the instance: after two given tokens, after or before one given
token, at a fixed distance from either end. An argument leaks if one rule finds it in the texts of all seeds.

Caught: `The code is 7421`, `42 opens the vault`, the answer always listed first, also in other letters of the same look
(full width, bold, with accents or invisible marks between). Not caught: values in other notations (words for digits,
reversed, encoded, letters of another alphabet), values that need a computation, and arguments listed among options in
an order that varies, which is what fair questions do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

Tokens = tuple[str, ...]
Rule = tuple[str, tuple[str, ...] | int]

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_UNSEEN = frozenset({"Mn", "Me", "Cf"})
"""Categories of accents, of enclosing marks and of invisible characters."""


def fold(text: str) -> str:
    """``text`` without what a reader overlooks: case, width and style of letters, accents, invisible characters."""
    if text.isascii():
        return text.lower()
    return _NOT_ASCII.sub(_seen, unicodedata.normalize("NFKD", text)).casefold()


def _seen(run: re.Match[str]) -> str:
    return "".join(char for char in run[0] if unicodedata.category(char) not in _UNSEEN)


def words(text: str) -> Tokens:
    """Lower-case words and numbers of ``text`` as they would be said, each once."""
    return tuple(dict.fromkeys(token for token in _TOKEN.findall(text.lower()) if token.isalnum()))


def tokens(text: str) -> Tokens:
    """Words, numbers and single punctuation marks, folded."""
    return tuple(_TOKEN.findall(fold(text)))


def arguments(actions: Sequence[str]) -> list[Tokens] | None:
    """What differs between ``actions`` (one per seed): the tokens between their common start and end.

    None if nothing differs or if one of them is only a part of another.
    """
    split = [tokens(action) for action in actions]
    if len(set(split)) < 2:
        return None
    start = common_start(split)
    end = common_start([words[start:][::-1] for words in split])
    spans = [words[start : len(words) - end] for words in split]
    return spans if all(spans) else None


def leaks(spans: Sequence[Tokens], texts: Sequence[str]) -> bool:
    """Whether one rule finds in every text the argument that belongs to it."""
    shared: set[Rule] | None = None
    for span, text in zip(spans, texts, strict=True):
        rules = _rules(span, tokens(text))
        shared = rules if shared is None else shared & rules
        if not shared:
            return False
    return bool(shared)


def contains(text: Tokens, span: Tokens) -> bool:
    """Whether ``span`` occurs in ``text`` as a run of whole tokens."""
    return bool(span) and any(text[i : i + len(span)] == span for i in range(len(text) - len(span) + 1))


def _rules(span: Tokens, text: Tokens) -> set[Rule]:
    """All rules that find ``span`` in ``text``."""
    found: set[Rule] = set()
    for start in range(len(text) - len(span) + 1):
        if text[start : start + len(span)] != span:
            continue
        end = start + len(span)
        found |= {("from start", start), ("from end", len(text) - start)}
        if start >= 1 and text.count(text[start - 1]) == 1:
            found.add(("after", text[start - 1 : start]))
        if start >= 2 and _count_pairs(text, text[start - 2 : start]) == 1:
            found.add(("after", text[start - 2 : start]))
        if end < len(text) and text.count(text[end]) == 1:
            found.add(("before", text[end : end + 1]))
        if end + 1 < len(text) and _count_pairs(text, text[end : end + 2]) == 1:
            found.add(("before", text[end : end + 2]))
    return found


def _count_pairs(text: Tokens, pair: Tokens) -> int:
    return sum(1 for i in range(len(text) - 1) if text[i : i + 2] == pair)


def common_start(texts: Sequence[Sequence[str]]) -> int:
    """How many words all of ``texts`` begin with alike."""
    count = 0
    for column in zip(*texts, strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    return count
