"""What a run came to, in one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from spadework.cli.output import plain, seconds, table
from spadework.config import Config
from spadework.evaluation.items import Split
from spadework.evaluation.results import Evaluation, first_and_last, gain, read_results
from spadework.progress import Stage
from spadework.store.metrics import read_metrics

_ENDS = 4
"""Rounds of the beginning and of the end that are averaged, at most."""

Row = tuple[str, str, str, str]


def print_closing(console: Console, run: Path, config: Config) -> None:
    """Held-out solve rates before and after, the designer's progress, and where the time went. Raises StoreError."""
    lines = read_metrics(run / "metrics.jsonl")
    rows = [
        *_heldout_rows(first_and_last(read_results(run)), config.evaluation.bootstrap_samples),
        *_round_rows(lines),
    ]
    if rows:
        console.print(table(("", ">before", ">after", "difference (95 % interval)"), rows))
    skipped = [line["learning/skipped"] > 0 for line in lines if "learning/skipped" in line]
    if any(skipped):
        console.print(
            plain(
                f"nothing was trained in {sum(skipped)} of {len(skipped)} iterations, since no attempt or play was "
                "better than the others of its group; `spadework show` says why attempts were rejected"
            ),
            soft_wrap=True,
        )
    spent = {stage: sum(line.get(f"time/{stage}_s", 0.0) for line in lines) for stage in Stage}
    told = ", ".join(f"{stage} {seconds(amount)}" for stage, amount in spent.items())
    total = sum(line.get("time/iteration_s", 0.0) for line in lines)
    console.print(plain(f"time: {seconds(total)} ({told})"))


def _heldout_rows(pair: Sequence[Evaluation], samples: int) -> Iterator[Row]:
    if not pair:
        return
    before, after = pair
    for split in Split:
        early, late, difference = (
            before.rate(split, samples),
            after.rate(split, samples),
            gain(before, after, split, samples),
        )
        if early is not None and late is not None and difference is not None:
            asked = len(after.solved(split))
            yield (
                f"held-out items solved, {split.value} ({asked})",
                f"{early.mean:.3f}",
                f"{late.mean:.3f}",
                f"{difference.mean:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})",
            )


def _round_rows(lines: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for label, key in (
        ("valid first attempts of the designer", "designer/first_attempt_validity"),
        ("environments at the frontier", "environments/frontier"),
    ):
        per_round = _last_of_each_round(lines, key)
        count = min(_ENDS, len(per_round) // 2)
        if len(per_round) == 1:
            yield f"{label}, only round", "", f"{per_round[0]:.3f}", ""
        elif count:
            early, late = sum(per_round[:count]) / count, sum(per_round[-count:]) / count
            rounds = "round" if count == 1 else f"{count} rounds"
            yield f"{label}, first and last {rounds}", f"{early:.3f}", f"{late:.3f}", f"{late - early:+.3f}"


def _last_of_each_round(lines: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    """The value that the last iteration of a round has, by round."""
    found = {int(line["round"]): float(line[key]) for line in lines if "round" in line and line.get(key) is not None}
    return [found[round_] for round_ in sorted(found)]
