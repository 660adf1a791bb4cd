"""One environment with everything that is known of it."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console
from rich.syntax import Syntax

from spadework.cli.output import plain, print_json, printable, table
from spadework.cli.show_rounds import attempt_json, number, wins
from spadework.curriculum.zones import zone_of
from spadework.store.reader import PoolReader
from spadework.store.records import AttemptRecord, EnvironmentRecord, Standing

_DOCUMENT_CHARS = 1200


def show_environment(console: Console, pool: PoolReader, environment: EnvironmentRecord, as_json: bool) -> None:
    """Its standing, document, program, hint, gates, measures and episodes."""
    document = pool.document(environment.document_id)
    standing = _standing(pool, environment)
    attempt = pool.attempt_of(environment.id)
    if as_json:
        print_json(
            {
                "environment": vars(environment),
                "document": asdict(document),
                "attempt": attempt_json(attempt),
                "zone": None if standing is None else zone_of(standing),
                "standing": None if standing is None else asdict(standing),
                "measures": [asdict(measure) for measure in pool.measures(environment.id)],
                "episodes": [asdict(episode) for episode in pool.episodes(environment.id)],
            }
        )
        return
    console.print(plain(f"{environment.class_name}  {environment.id}", "bold"))
    place = f"round {environment.round}, slot {environment.slot}, attempt {attempt.attempt + 1}, {environment.skill}"
    console.print(plain(place))
    for name, shown in (("vary", attempt.positives), ("avoid", attempt.negatives)):
        if shown:
            console.print(plain(f"shown to {name}: {', '.join(id_[:12] for id_ in shown)}"))
    if standing is not None:
        console.print(plain(_standing_text(standing)))
    text = document.text if len(document.text) <= _DOCUMENT_CHARS else document.text[:_DOCUMENT_CHARS] + " …"
    console.print(plain(f"\nDocument: {document.title} ({document.source})", "bold"))
    console.print(plain(text))
    console.print(plain("\nProgram", "bold"))
    console.print(Syntax(printable(environment.source), "python", background_color="default", word_wrap=True))
    console.print(plain("\nHint", "bold"))
    console.print(plain(environment.hint))
    console.print()
    _print_gates(console, attempt)
    _print_plays(console, pool, environment)


def _standing(pool: PoolReader, environment: EnvironmentRecord) -> Standing | None:
    """None if nothing was measured of it yet."""
    found = pool.standings(environment.skill, environment.round, environment.round)
    return next((standing for standing in found if standing.environment_id == environment.id), None)


def _standing_text(standing: Standing) -> str:
    error = "" if standing.regret_stderr is None else f" ± {standing.regret_stderr:.2f}"
    return (
        f"zone {zone_of(standing) or 'unknown'}; plain wins {wins(standing.plain_wins, standing.plain_plays)}, "
        f"hinted wins {wins(standing.hinted_wins, standing.hinted_plays)}, regret {number(standing.regret)}{error}"
    )


def _print_gates(console: Console, attempt: AttemptRecord) -> None:
    rows = [
        (
            verdict.gate,
            "yes" if verdict.passed else f"no: {verdict.reason}",
            f"{verdict.seconds:.2f}",
            ", ".join(f"{key} {value}" for key, value in verdict.details.items()),
        )
        for verdict in attempt.gates
    ]
    console.print(table(("gate", "passed", ">seconds", "measured"), rows, title="Gates"))


def _print_plays(console: Console, pool: PoolReader, environment: EnvironmentRecord) -> None:
    measured = [
        (one.iteration, one.arm, wins(one.wins, one.plays), number(one.mean_return), number(one.stderr), one.faults)
        for one in pool.measures(environment.id)
    ]
    of_arm = (">iteration", "arm", ">wins", ">mean return", ">standard error", ">faults")
    console.print(table(of_arm, measured, title="Both arms"))
    played = [
        (one.row, one.iteration, one.arm, one.seed, one.turns, one.end, number(one.value))
        for one in pool.episodes(environment.id)
    ]
    columns = (">episode", ">iteration", "arm", ">seed", ">turns", "end", ">return")
    console.print(table(columns, played, title="Episodes"))
