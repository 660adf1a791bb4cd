"""Options that several commands share, each with one name and one meaning."""

from __future__ import annotations

from typing import Annotated

import typer

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one setting, for example curriculum.plays=4. May be given several times.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs to read.")]
