"""`spadework report`: everything about a run in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = "Example: spadework report runs/quickstart"


def report(run: Annotated[Path, typer.Argument(help="The directory of a run, also of one that is going on.")]) -> None:
    """Write the report of a run, as a page with figures and as Markdown, into its directory."""
    from spadework.analysis.report import write_report

    paths = write_report(run)
    typer.echo(f"report: {paths.html}")
    typer.echo(f"as Markdown: {paths.markdown}")
