"""How commands print: tables and text for people, JSON for programs.

Whatever a program, a model or a document wrote is shown without control characters and is never read as markup.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from spadework.analysis.writing import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["console", "percent", "plain", "print_json", "printable", "seconds", "table"]

PIPE_WIDTH = 160
"""Columns where nobody says how wide the output is."""


def console() -> Console:
    """Where results go. Colours only for terminals; a pipe gets lines that are not folded early."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def plain(text: object, style: str = "") -> Text:
    """``text`` as it is."""
    from rich.text import Text

    return Text(printable(str(text)), style=style)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> Any:
    """A table. A column whose name starts with `>` is set to the right."""
    from rich import box
    from rich.table import Table

    made = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        made.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    for row in rows:
        made.add_row(*(plain("-" if cell is None else cell) for cell in row))
    return made


def print_json(value: object) -> None:
    """One JSON document. Texts that are not Unicode are escaped, so that nothing cannot be printed."""
    print(json.dumps(value, indent=2, default=str))


def percent(share: float | None) -> str:
    """A share as a person reads it; a dash where it was not measured."""
    return "-" if share is None else f"{100 * share:.0f} %"


def seconds(amount: float) -> str:
    """A span of time to the precision that matters."""
    if amount < 10:
        return f"{amount:.1f} s"
    if amount < 100:
        return f"{amount:.0f} s"
    minutes = round(amount / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
