"""The command line as a whole: which commands there are, and what stands before them."""

from __future__ import annotations

from typing import Annotated

import typer

from spadework.cli import audit, check, corpus, doctor, evaluate, play, presets, report, sandbox, show, train

app = typer.Typer(
    help="Self-play for language models in environments that the model writes itself.",
    epilog="Start with: spadework train quickstart",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"spadework {version('spadework')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """What stands before a command."""


_RUNS, _PROGRAMS, _SETTINGS = "Runs", "Programs", "Settings"

app.command("train", rich_help_panel=_RUNS, epilog=train.EXAMPLES)(train.train)
app.command("show", rich_help_panel=_RUNS, epilog=show.EXAMPLES)(show.show)
app.command("report", rich_help_panel=_RUNS, epilog=report.EXAMPLES)(report.report)
app.command("eval", rich_help_panel=_RUNS, epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command("check", rich_help_panel=_PROGRAMS, epilog=check.EXAMPLES)(check.check)
app.command("audit", rich_help_panel=_PROGRAMS, epilog=audit.EXAMPLES)(audit.audit)
app.command("play", rich_help_panel=_PROGRAMS, epilog=play.EXAMPLES)(play.play)
app.add_typer(sandbox.commands, name="sandbox", rich_help_panel=_PROGRAMS)
app.command("presets", rich_help_panel=_SETTINGS, epilog=presets.EXAMPLES)(presets.presets)
app.command("doctor", rich_help_panel=_SETTINGS, epilog=doctor.EXAMPLES)(doctor.doctor)
app.command("corpus", rich_help_panel=_SETTINGS, epilog=corpus.EXAMPLES)(corpus.corpus)
