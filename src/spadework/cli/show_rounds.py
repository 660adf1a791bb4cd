"""The rounds of a run, and the environments or the attempts of one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import Console

from spadework.cli.output import print_json, table
from spadework.curriculum.zones import Zone, zone_of
from spadework.store.reader import PoolReader
from spadework.store.records import AttemptRecord, EnvironmentRecord, Standing

Row = tuple[object, ...]

SHOWN_ROUNDS = 25


def show_rounds(console: Console, pool: PoolReader, skills: Sequence[str], wanted: int, as_json: bool) -> None:
    """One line per round up to the one that is ``wanted``, at most `SHOWN_ROUNDS`, and one per environment of it."""
    first = max(0, wanted - SHOWN_ROUNDS + 1)
    standings = [standing for skill in skills for standing in pool.standings(skill, first, wanted)]
    environments = pool.environments(wanted)
    of_id = {standing.environment_id: standing for standing in standings}
    if as_json:
        print_json(
            {
                "standings": [{**asdict(standing), "zone": zone_of(standing)} for standing in standings],
                "round": wanted,
                "environments": [{"id": one.id, "class": one.class_name, "skill": one.skill} for one in environments],
            }
        )
        return
    columns = ("round", "environments", *(zone.value for zone in Zone), "plain wins", "hinted wins", "regret")
    title = "Rounds" if first == 0 else f"Rounds from {first} on"
    console.print(table([f">{name}" for name in columns], _round_rows(standings), title=title))
    columns = ("environment", "class", "skill", "zone", ">plain wins", ">hinted wins", ">regret")
    rows = [_environment_row(one, of_id.get(one.id)) for one in environments]
    console.print(table(columns, rows, title=f"Environments of round {wanted}"))


def show_attempts(console: Console, attempts: Sequence[AttemptRecord], round_: int, as_json: bool) -> None:
    """What the designer tried in a round, and what became of it."""
    if as_json:
        print_json([attempt_json(one) for one in attempts])
        return
    columns = (">slot", ">attempt", "skill", ">tokens", "status", "gate", "environment", "why")
    rows = [
        (
            one.slot,
            one.attempt,
            one.skill,
            one.reply_tokens,
            one.status,
            one.rejected_by or "",
            (one.environment_id or "")[:12],
            one.reason,
        )
        for one in attempts
    ]
    console.print(table(columns, rows, title=f"Attempts of round {round_}"))


def attempt_json(attempt: AttemptRecord) -> dict[str, object]:
    gates = [
        {"gate": one.gate, "passed": one.passed, "reason": one.reason, "seconds": one.seconds, "details": one.details}
        for one in attempt.gates
    ]
    return {**vars(attempt), "gates": gates}


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def wins(won: int, plays: int) -> str:
    """Wins of plays, as a share with its counts."""
    return f"{won / plays:.2f} ({won}/{plays})" if plays else "-"


def _round_rows(standings: Sequence[Standing]) -> Iterator[Row]:
    for round_ in sorted({standing.round for standing in standings}):
        members = [standing for standing in standings if standing.round == round_]
        zones = [zone_of(standing) for standing in members]
        plain = [standing.plain_wins / standing.plain_plays for standing in members if standing.plain_plays]
        hinted = [standing.hinted_wins / standing.hinted_plays for standing in members if standing.hinted_plays]
        regret = [standing.regret for standing in members if standing.regret is not None]
        means = (number(sum(values) / len(values) if values else None) for values in (plain, hinted, regret))
        yield round_, len(members), *(zones.count(zone) for zone in Zone), *means


def _environment_row(environment: EnvironmentRecord, standing: Standing | None) -> Row:
    name = (environment.id[:12], environment.class_name, environment.skill)
    if standing is None:
        return *name, "not measured", "-", "-", "-"
    plain = wins(standing.plain_wins, standing.plain_plays)
    hinted = wins(standing.hinted_wins, standing.hinted_plays)
    return *name, zone_of(standing) or "no return", plain, hinted, number(standing.regret)
