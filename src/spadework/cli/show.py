"""`spadework show`: what a run holds, from its rounds down to single turns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spadework.cli.options import AsJson

EXAMPLES = "Examples: spadework show runs/tour | spadework show runs/tour 3fa2 | spadework show runs/tour 3fa2 17"


def show(
    run: Annotated[Path, typer.Argument(help="The directory of a run, also of one that is going on.")],
    environment: Annotated[
        str | None, typer.Argument(help="An environment, by the beginning of its id.", show_default=False)
    ] = None,
    episode: Annotated[
        int | None, typer.Argument(help="An episode of it, by its number in the list.", show_default=False)
    ] = None,
    round_: Annotated[
        int | None, typer.Option("--round", help="The round to list; the last if not given.", show_default=False)
    ] = None,
    attempts: Annotated[
        bool, typer.Option("--attempts", help="The designer's attempts of the round, rejected ones too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a run's rounds and environments, one environment with everything about it, or one episode turn by turn."""
    from spadework.cli.errors import Refused
    from spadework.cli.output import console
    from spadework.cli.show_environment import show_environment
    from spadework.cli.show_episode import show_episode
    from spadework.cli.show_rounds import show_attempts, show_rounds
    from spadework.store.reader import PoolReader
    from spadework.store.run_directory import RunDirectory

    directory = RunDirectory.open_readonly(run)
    out = console()
    with PoolReader.open(directory.pool) as pool:
        if environment is not None and episode is not None:
            show_episode(out, pool, episode, pool.environment(environment), as_json)
        elif environment is not None:
            show_environment(out, pool, pool.environment(environment), as_json)
        else:
            last = pool.last_round()
            if last is None:
                raise Refused(f"the run {run} has no environments yet; wait for its first iteration")
            wanted = last if round_ is None else round_
            if not 0 <= wanted <= last:
                raise Refused(f"the run {run} has no round {wanted}; it has the rounds 0 to {last}")
            if attempts:
                show_attempts(out, pool.attempts(wanted), wanted, as_json)
            else:
                show_rounds(out, pool, directory.config.curriculum.skills, wanted, as_json)
