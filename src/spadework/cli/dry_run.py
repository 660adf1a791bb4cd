"""`spadework train PRESET --dry-run`: what a run comes to, and whether it would get to its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from spadework.cli.findings import Readiness
    from spadework.cli.footprint import Footprint, ModelShape
    from spadework.cli.plan import Amount
    from spadework.config import Config

UNFIT = 1
"""Exit status if something would fail."""

Row = tuple[str, str, str]


def dry_run(config: Config, run: Path, as_json: bool) -> None:
    """Print the plan of a run and everything that would keep it from its end; exit with `UNFIT` if there is any."""
    from spadework.cli.output import console, plain, print_json
    from spadework.cli.readiness import examine

    found = examine(config, run)
    if as_json:
        print_json(_as_json(found))
    else:
        out = console()
        _print_plan(out, found)
        _print_findings(out, found)
        verdict = f"{len(found.problems)} reasons against this run" if found.problems else "the run may start"
        verdict = verdict.replace("1 reasons", "1 reason")
        out.print(plain(verdict, "bold red" if found.problems else "bold green"))
    if found.problems:
        raise typer.Exit(UNFIT)


def _print_plan(out: Console, found: Readiness) -> None:
    from spadework.cli.output import plain, table
    from spadework.cli.plan import assumptions_of

    plan = found.plan
    counts = [
        ("iterations, rounds", f"{plan.iterations}, {plan.rounds}", ""),
        ("environments per round", f"{plan.environments_per_round}", ""),
        ("attempts of the designer per round", *_counts(plan.attempts_per_round)),
        ("plays per iteration, plain", f"{plan.plain_plays_per_iteration:,}", ""),
        ("plays per round, hinted", f"{plan.hinted_plays_per_round:,}", ""),
        ("plays in all", f"{plan.plays:,}", ""),
        ("tokens of one episode", *_counts(plan.episode_tokens)),
        ("tokens sampled per round, designer", *_counts(plan.designer_tokens_per_round)),
        ("tokens sampled per iteration, plain", *_counts(plan.agent_tokens_per_iteration)),
        ("tokens sampled per round, hinted", *_counts(plan.hinted_tokens_per_round)),
        ("tokens sampled in all", *_counts(plan.tokens)),
    ]
    out.print(table(("the run", ">at most", ">expected"), counts))
    assumed = assumptions_of(found.config)
    reply = assumed.thinking_reply if found.config.agent.thinking else assumed.reply
    out.print(
        plain(
            f"expected: {assumed.attempts_per_slot} attempts an environment, {assumed.program} tokens a program, "
            f"{assumed.turns} turns an episode, {reply} tokens a reply, as far as the settings allow"
        ),
        soft_wrap=True,
    )
    if found.shape is not None:
        out.print(table((f"model, {found.shape_source}", ">", ">"), _model_rows(found.shape, found.weight_bytes)))
    footprint = found.footprint
    if footprint is None:
        out.print(plain("memory and disk: not known without the model's config.json"))
        return
    if found.config.engine.kind == "tinker":
        out.print(plain("memory and checkpoints: the service's; the model that it gives at the end is not counted"))
    else:
        out.print(table(("memory", ">at most", ">expected"), _memory_rows(footprint)))
    out.print(table(("disk", ">at most", ">expected"), _disk_rows(found.config, footprint)))


def _print_findings(out: Console, found: Readiness) -> None:
    from spadework.cli.findings import Verdict
    from spadework.cli.output import plain

    marks = {Verdict.OK: ("OK  ", "green"), Verdict.NOTE: ("NOTE", "yellow"), Verdict.PROBLEM: ("NO  ", "red")}
    for finding in found.findings:
        mark, style = marks[finding.verdict]
        out.print(plain(f"{mark}  {finding.what}: {finding.text}", style), soft_wrap=True)


def _counts(amount: Amount) -> tuple[str, str]:
    return f"{amount.most:,}", f"{amount.expected:,}"


def _bytes(amount: Amount) -> tuple[str, str]:
    from spadework.cli.findings import size

    return size(amount.most), size(amount.expected)


def _model_rows(shape: ModelShape, weight_bytes: int) -> Iterator[Row]:
    from spadework.cli.footprint import cache_bytes_per_token

    yield "parameters", f"{shape.parameters:,}", ""
    yield "vocabulary", f"{shape.vocabulary:,}", ""
    yield "context that it was made for", "" if shape.context_tokens is None else f"{shape.context_tokens:,}", ""
    yield "layers, of them attention", f"{shape.layers}, {shape.attention_layers}", ""
    yield "keys and values of a token", f"{cache_bytes_per_token(shape, weight_bytes):,} B", ""


def _memory_rows(footprint: Footprint) -> Iterator[Row]:
    from spadework.cli.plan import Amount

    for name, held in footprint.held.items():
        yield name, *_bytes(Amount(held, held))
    for name, amount in footprint.working.items():
        yield name, *_bytes(amount)
    yield "in all", *_bytes(footprint.memory)


def _disk_rows(config: Config, footprint: Footprint) -> Iterator[Row]:
    from spadework.cli.plan import Amount

    if config.engine.kind == "local":
        adapter = config.model.lora_rank and config.model.lora_export == "adapter"
        for name, count in (
            ("one checkpoint", footprint.checkpoint),
            (f"checkpoints, {config.checkpoint.keep} and one in the making", footprint.checkpoints),
            ("the trained adapter" if adapter else "the trained model", footprint.exported),
        ):
            yield name, *_bytes(Amount(count, count))
    yield "pool at the end", *_bytes(footprint.pool)
    yield "in all", *_bytes(footprint.disk)


def _as_json(found: Readiness) -> dict[str, Any]:
    from spadework.cli.plan import assumptions_of

    footprint = found.footprint
    known: dict[str, Any] = {"model": None, "memory_bytes": None, "disk_bytes": None}
    if found.shape is not None:
        known["model"] = asdict(found.shape) | {"source": found.shape_source}
    if footprint is not None:
        known["memory_bytes"] = {
            "held": dict(footprint.held),
            "working": {name: asdict(amount) for name, amount in footprint.working.items()},
        }
        known["disk_bytes"] = {
            "checkpoint": footprint.checkpoint,
            "checkpoints_and_model": footprint.checkpoints + footprint.exported,
            "pool": asdict(footprint.pool),
        }
    return {
        "may_train": not found.problems,
        "problems": found.problems,
        "findings": [asdict(finding) for finding in found.findings],
        "plan": asdict(found.plan),
        "assumptions": asdict(assumptions_of(found.config)),
        **known,
        "config": found.config.model_dump(mode="json"),
    }
