"""`spadework train`: a run from its start, or from where it was stopped, to its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spadework.cli.errors import Refused
from spadework.cli.options import AsJson, Overrides

if TYPE_CHECKING:
    from spadework.config import Config

EXAMPLES = (
    "Examples: spadework train quickstart | spadework train quickstart --set seed=1 --run runs/tour"
    " | spadework train games-qwen3-4b --dry-run"
)
INTERRUPTED = 130
"""Exit status after Ctrl-C or SIGTERM."""


def train(
    preset: Annotated[str, typer.Argument(help="A preset (see `spadework presets`) or the path of a .toml file.")],
    overrides: Overrides = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="Directory of the run; runs/PRESET if not given.", show_default=False)
    ] = None,
    only_look: Annotated[
        bool, typer.Option("--dry-run", help="Say what the run comes to and what would fail; write nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model in environments that it writes itself. The same command continues a run that was stopped.

    With --dry-run the exit status is 0 if the run may start, 1 if not; --json goes with it only.
    """
    from spadework.cli.dry_run import dry_run
    from spadework.presets import load_config

    config = load_config(preset, overrides or ())
    path = run or Path("runs") / Path(preset).stem
    if only_look:
        dry_run(config, path, as_json)
        return
    if as_json:
        raise Refused("--json is for --dry-run; a run prints its progress and keeps its numbers in metrics.jsonl")
    _train(config, path)


def _train(config: Config, path: Path) -> None:
    import asyncio
    import shlex
    import sys
    from contextlib import ExitStack

    from spadework.analysis.report import write_report
    from spadework.cli.closing import print_closing
    from spadework.cli.opening import open_model
    from spadework.cli.output import console, plain
    from spadework.cli.watching import Watching
    from spadework.curriculum.corpus import open_corpus
    from spadework.engines.open import notes_of
    from spadework.evaluation.heldout import HeldOut
    from spadework.sandbox.probe import isolation_of
    from spadework.selfplay import Interrupted, train
    from spadework.store.run_directory import RunDirectory

    out = console()
    with ExitStack() as stack:
        directory = stack.enter_context(RunDirectory.create_or_open(path, config)) if _holds_anything(path) else None
        # Before the directory is made: with a setting that cannot work in it, it could not be continued.
        corpus = open_corpus(config.corpus)
        isolation = asyncio.run(isolation_of(config.sandbox))
        engine, rendering = open_model(config)
        if directory is None:
            directory = stack.enter_context(RunDirectory.create_or_open(path, config))
        directory.record_start(isolation)
        out.print(plain(f"run: {path}"))
        for note in notes_of(config):
            out.print(plain(note), soft_wrap=True)
        heldout = HeldOut.open(config, engine, rendering, path)
        observer = stack.enter_context(Watching(out))
        try:
            asyncio.run(
                train(directory, config, engine, observer, rendering=rendering, corpus=corpus, evaluate=heldout)
            )
            asyncio.run(engine.export(path / "model"))
        except Interrupted as interrupted:
            stack.close()
            typer.echo(f"spadework: {interrupted}:\n  {shlex.join(['spadework', *sys.argv[1:]])}", err=True)
            raise typer.Exit(INTERRUPTED) from None
    print_closing(out, path, config)
    out.print(plain(f"model: {path / 'model'}"), soft_wrap=True)
    out.print(plain(f"report: {write_report(path).html}"), soft_wrap=True)


def _holds_anything(path: Path) -> bool:
    """Whether the store decides at once about ``path``: a run, which it continues, or what it refuses."""
    return path.exists() and not (path.is_dir() and next(path.iterdir(), None) is None)
