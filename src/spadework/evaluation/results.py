"""What a held-out evaluation found, item by item, and where a run keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from spadework.config import Thinking
from spadework.evaluation.bootstrap import Interval, bootstrap, paired_bootstrap
from spadework.evaluation.items import Split
from spadework.roles.episode import EpisodeEnd
from spadework.sandbox.outcomes import Outcome
from spadework.store.atomic import write_atomically
from spadework.store.errors import StoreError

_FOLDER = "heldout"


@dataclass(frozen=True)
class ItemResult:
    """One item played once. An episode without a return, for whatever reason, is not solved."""

    id: str
    split: Split
    family: str
    solved: bool
    turns: int
    end: EpisodeEnd
    outcome: Outcome


@dataclass(frozen=True)
class Evaluation:
    """All items played with one set of weights, and everything that a report must name about how.

    ``iterations`` is how many iterations the weights had been trained for, None outside of a run.
    """

    suite: str
    version: int
    sha256: str
    renderer: str
    prompts: str
    thinking: Thinking
    temperature: float
    policy_version: int
    iterations: int | None
    items: tuple[ItemResult, ...]

    def solved(self, split: Split) -> tuple[float, ...]:
        return tuple(float(item.solved) for item in self.items if item.split is split)

    def rate(self, split: Split, samples: int) -> Interval | None:
        """Share solved with its interval; None if the list has no item of the split."""
        values = self.solved(split)
        return bootstrap(values, samples, self.version) if values else None

    def by_family(self) -> Mapping[str, tuple[int, int]]:
        """Per family, items solved and items asked."""
        counts: dict[str, tuple[int, int]] = {}
        for item in self.items:
            solved, asked = counts.get(item.family, (0, 0))
            counts[item.family] = (solved + item.solved, asked + 1)
        return counts

    @property
    def cut_share(self) -> float:
        """Share of items whose episode a token budget ended."""
        ends = (EpisodeEnd.REPLY_CUT, EpisodeEnd.CONTEXT_FULL)
        return sum(item.end in ends for item in self.items) / len(self.items)

    @property
    def errors(self) -> int:
        """Items without a return because the environment or the host failed."""
        return sum(item.end is EpisodeEnd.FAULT for item in self.items)


_ADAPTER = TypeAdapter(Evaluation)


def gain(before: Evaluation, after: Evaluation, split: Split, samples: int) -> Interval | None:
    """Difference of the share solved, item by item; None if there is no item of the split.

    Raises ValueError if the two did not ask the same.
    """
    questions = [[(item.id, item.split) for item in evaluation.items] for evaluation in (before, after)]
    if before.sha256 != after.sha256 or questions[0] != questions[1]:
        raise ValueError("the two evaluations did not ask the same items, so that they cannot be compared")
    early, late = before.solved(split), after.solved(split)
    return paired_bootstrap(early, late, samples, before.version) if early else None


def write_result(run: Path, evaluation: Evaluation) -> None:
    """Keep ``evaluation`` in the run directory; one of the same number of iterations is replaced."""
    folder = run / _FOLDER
    folder.mkdir(exist_ok=True)
    write_atomically(folder / f"{evaluation.iterations:06d}.json", _ADAPTER.dump_json(evaluation, indent=1))


def read_results(run: Path) -> dict[int, Evaluation]:
    """The evaluations of a run by iterations trained, in order. Raises StoreError if one cannot be read."""
    found: dict[int, Evaluation] = {}
    for path in sorted((run / _FOLDER).glob("*.json")):
        try:
            found[int(path.stem)] = _ADAPTER.validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise StoreError(f"the held-out result {path} cannot be read ({error}); remove it to go on") from error
    return found


def readings(evaluation: Evaluation, samples: int) -> dict[str, float]:
    """The evaluation as metrics."""
    found = {"heldout/cut_share": evaluation.cut_share, "heldout/errors": float(evaluation.errors)}
    for split in Split:
        interval = evaluation.rate(split, samples)
        if interval is not None:
            name = f"heldout/{split.value.replace('-', '_')}"
            found |= {name: interval.mean, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return found


def first_and_last(results: Mapping[int, Evaluation]) -> Sequence[Evaluation]:
    """The evaluations to compare: empty if there are not two."""
    ordered = [results[iterations] for iterations in sorted(results)]
    return (ordered[0], ordered[-1]) if len(ordered) > 1 else ()
