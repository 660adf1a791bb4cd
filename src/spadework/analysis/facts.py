"""The facts of a report: isolation, held-out results before and after, and what became of the designer's attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spadework.analysis.series import Rows
from spadework.config import in_words
from spadework.environment.gates.results import GateName
from spadework.evaluation.bootstrap import Interval
from spadework.evaluation.items import Split
from spadework.evaluation.results import Evaluation, first_and_last, gain, read_results
from spadework.roles.draft import AttemptStatus
from spadework.store.reader import PoolReader
from spadework.store.run_directory import Start

REASON_ROUNDS = 20
"""Reasons are counted over so many of the latest rounds: older ones are of a weaker designer."""
_REASONS_SHOWN = 3
_REASON_CHARS = 160

_SPLITS: Mapping[Split, str] = MappingProxyType(
    {Split.IN_FAMILY: "in-family: unseen instances", Split.OUT_OF_FAMILY: "out-of-family: unseen families"}
)
_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        AttemptStatus.ACCEPTED: "Passed every gate and became an environment.",
        AttemptStatus.REPLY_CUT: "The reply reached its token budget; no gate saw it.",
        AttemptStatus.PROMPT_TOO_LONG: "The prompt left no room for a program; nothing was sampled.",
        AttemptStatus.HOST_FAULT: "The host failed twice: nobody's fault.",
        GateName.PARSE: "The source is not one readable environment class.",
        GateName.CONTRACT: "It does not load, or takes and returns what it must not.",
        GateName.DETERMINISM: "Equal seeds give different episodes, or seeds give few different instances.",
        GateName.TERMINATION: "An episode does not end in time, or crashes.",
        GateName.NOT_TRIVIAL: "Scripted agents that know nothing earn too much.",
        GateName.SOLVABLE: "Its own solution does not win on every seed, or something pays as much as winning.",
        GateName.SECRET: "What decides the win is given away at the start, or cannot be found out.",
        GateName.HINT_SAFE: "No hint was found that helps without giving the solution away.",
        GateName.NOVEL: "The pool holds something nearly equal.",
        GateName.JUDGE: "A model that reads it says that it cannot be won as it says.",
    }
)


@dataclass(frozen=True)
class SplitFacts:
    """Share solved of one part of the held-out items. ``gain`` pairs the two evaluations item by item."""

    label: str
    before: Interval | None
    after: Interval | None
    gain: Interval | None
    items: int | None


@dataclass(frozen=True)
class FamilyFacts:
    """Items solved of one family, first and last; ``items`` were asked both times."""

    name: str
    label: str
    items: int
    before: int
    after: int


@dataclass(frozen=True)
class HeldOutFacts:
    """``first`` and ``last`` are iterations trained at the two evaluations, None without one; ``missing`` says what
    cannot be told, empty if nothing. ``asked`` says what was asked and how, and ``failures`` how many items a budget
    or a fault ended, in a sentence each; empty if the run does not keep the items."""

    first: int | None
    last: int | None
    splits: tuple[SplitFacts, ...]
    families: tuple[FamilyFacts, ...]
    missing: str
    asked: str = ""
    failures: str = ""


@dataclass(frozen=True)
class FateFacts:
    """Attempts that ended one way: ``share`` of all, ``reasons`` the commonest with their counts."""

    name: str
    meaning: str
    count: int
    share: float
    reasons: tuple[tuple[str, int], ...]


def isolation_facts(starts: Sequence[Start]) -> tuple[str, ...]:
    """How programs were isolated, a sentence for each set of layers that the run was started or continued with."""
    if not starts:
        return ("How programs were isolated is not recorded.",)
    sentences: dict[str, str] = {}
    for start in starts:
        in_force = [name for name, absent_because in start.isolation.items() if not absent_because]
        absent = [f"{name} ({why})" for name, why in start.isolation.items() if why]
        without = f"; without {', '.join(absent)}" if absent else ""
        sentences.setdefault(f"{', '.join(in_force)}{without}.", start.at)
    return tuple(f"Programs were isolated from {at} by {layers}" for layers, at in sentences.items())


def held_out_facts(run: Path, rows: Rows, samples: int) -> HeldOutFacts:
    """What the held-out evaluations of a run show; ``samples`` are those of the bootstrap. Raises StoreError."""
    measured = [row for row in rows if any(row.get(_metric(split)) is not None for split in Split)]
    if not measured:
        return HeldOutFacts(None, None, (), (), "No held-out evaluation has been made yet.")
    first, last = measured[0], measured[-1]
    results = read_results(run)
    pair = first_and_last(results)
    latest = results[max(results)] if results else None
    gains: dict[Split, Interval | None] = {}
    missing = ""
    if len(measured) < 2:
        missing = "There is one held-out evaluation so far, so that no gain can be told."
    elif not pair:
        missing = "The items of the evaluations are not in the run, so that the gain has no interval."
    else:
        try:
            gains = {split: gain(pair[0], pair[-1], split, samples) for split in Split}
        except ValueError as error:
            missing = f"The gain has no interval: {error}."
    splits = []
    for split, label in _SPLITS.items():
        before = _interval(first, split)
        after = _interval(last, split) if len(measured) > 1 else None
        if before is not None or after is not None:
            items = len(pair[-1].solved(split)) if pair else None
            splits.append(SplitFacts(label, before, after, gains.get(split), items))
    return HeldOutFacts(
        first=first["iteration"] + 1,
        last=last["iteration"] + 1 if len(measured) > 1 else None,
        splits=tuple(splits),
        families=_families(*pair) if gains else (),
        missing=missing,
        asked="" if latest is None else _asked(latest),
        failures="" if latest is None else _failures(latest),
    )


def fates(pool: PoolReader) -> tuple[FateFacts, ...]:
    """What became of all attempts, the commonest first. Raises StoreError."""
    counts: Counter[str] = Counter()
    for (status, gate), count in pool.attempt_counts().items():
        counts[gate or status] += count
    reasons: dict[str, Counter[str]] = {}
    last = pool.last_round()
    for round_ in range(max(0, (last or 0) - REASON_ROUNDS + 1), (last or 0) + 1):
        for attempt in pool.attempts(round_):
            verdict = next((verdict for verdict in attempt.gates if not verdict.passed), None)
            reason = attempt.reason if verdict is None else verdict.reason
            if reason:
                reasons.setdefault(attempt.rejected_by or attempt.status, Counter())[_short(reason)] += 1
    total = counts.total()
    return tuple(
        FateFacts(
            name,
            _MEANINGS.get(name, ""),
            count,
            count / total,
            tuple(reasons.get(name, Counter()).most_common(_REASONS_SHOWN)),
        )
        for name, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    )


def _asked(evaluation: Evaluation) -> str:
    draws = (
        "greedy" if evaluation.temperature == 0 else f"temperature {evaluation.temperature:g}, the same draws each time"
    )
    return (
        f"Suite {evaluation.suite}, version {evaluation.version}, SHA-256 {evaluation.sha256[:12]}; one plain play per "
        f"item, {draws}; prompts {evaluation.prompts}, thinking {in_words(evaluation.thinking)}, "
        f"rendering {evaluation.renderer}."
    )


def _failures(evaluation: Evaluation) -> str:
    cut = round(evaluation.cut_share * len(evaluation.items))
    return (
        f"In the latest evaluation {cut} of {len(evaluation.items)} plays were ended by a token budget and "
        f"{evaluation.errors} by an error; all of them count as not solved."
    )


def _families(before: Evaluation, after: Evaluation) -> tuple[FamilyFacts, ...]:
    early, late = before.by_family(), after.by_family()
    labels = {item.family: _SPLITS[item.split] for item in after.items}
    ordered = sorted(late, key=lambda name: (labels[name], name))
    return tuple(FamilyFacts(name, labels[name], late[name][1], early[name][0], late[name][0]) for name in ordered)


def _metric(split: Split) -> str:
    return f"heldout/{split.value.replace('-', '_')}"


def _interval(row: Mapping[str, Any], split: Split) -> Interval | None:
    name = _metric(split)
    mean, low, high = (row.get(key) for key in (name, f"{name}_low", f"{name}_high"))
    if mean is None:
        return None
    return Interval(float(mean), float(mean if low is None else low), float(mean if high is None else high))


def _short(reason: str) -> str:
    text = " ".join(reason.split())
    return text if len(text) <= _REASON_CHARS else text[: _REASON_CHARS - 1] + "…"
