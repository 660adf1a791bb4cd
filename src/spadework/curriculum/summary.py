"""A program in a few lines: compact enough for a prompt, and complete, with what `step` understands and pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spadework.curriculum.outline import Outcome, Outline, outline

HEAD_CHARS = 200
OPENING_CHARS = 320
STATE_CHARS = 360
ACTIONS_CHARS = 240
LINE_CHARS = 160
STEP_CHARS = 900
MAX_CHARS = 2200
"""No summary is longer."""


def summarise(source: str) -> str:
    """The summary of an environment's program: at most `MAX_CHARS` characters, however long the program is.

    Each part has a share of its own, so that a long description or much state never crowds out `step`.
    Raises ProgramRejected if ``source`` does not parse; ValueError if it defines no environment class.
    """
    return "\n".join(_lines(outline(source)))


def _lines(found: Outline) -> Iterator[str]:
    said = " ".join(found.docstring.split())
    yield _cut(f"{found.class_name}: {said}" if said else found.class_name, HEAD_CHARS)
    if found.max_turns:
        yield _cut(f"max_turns: {found.max_turns}", LINE_CHARS)
    if found.opening:
        yield _cut(f"opens with: {found.opening}", OPENING_CHARS)
    if found.state:
        yield "state: " + _joined(found.state, "; ", STATE_CHARS)
    if found.tools:
        yield "tools: " + _joined(found.tools, ", ", ACTIONS_CHARS)
    if found.actions:
        yield "step looks for: " + _joined(found.actions, ", ", ACTIONS_CHARS)
    yield "step pays:"
    yield from _outcome_lines(found.outcomes)


def _outcome_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    if not outcomes:
        yield "- what cannot be read off its source"
    room = STEP_CHARS
    # The outcomes that pay are the ones to know; of the rest, as many as there is room for.
    ordered = sorted(outcomes, key=lambda outcome: outcome.reward in ("0", "0.0"))
    for number, outcome in enumerate(ordered):
        line = _cut("- " + _sentence(outcome), LINE_CHARS)
        if len(line) + 1 > room:
            yield f"- and {len(ordered) - number} more"
            return
        room -= len(line) + 1
        yield line


def _sentence(outcome: Outcome) -> str:
    parts = [f"reward {outcome.reward}", *([outcome.ends] if outcome.ends else [])]
    return ", ".join(parts) + (f", when {outcome.when}" if outcome.when else "")


def _joined(items: Sequence[str], separator: str, room: int) -> str:
    """As many of ``items`` as there is room for, and how many more there are."""
    shown: list[str] = []
    for item in items:
        piece = _cut(item, LINE_CHARS // 2)
        if sum(len(one) + len(separator) for one in shown) + len(piece) > room:
            return separator.join(shown) + f"{separator}and {len(items) - len(shown)} more"
        shown.append(piece)
    return separator.join(shown)


def _cut(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 2].rstrip() + " …"
