"""Which figures a run has, from its metrics, each with the one line that says how to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spadework.analysis import plots
from spadework.analysis.series import Curve, Rows, curve, stack
from spadework.store.glossary import GATES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ZONES = {f"environments/{zone}": zone for zone in ("mastered", "frontier", "unsolvable")}
_REJECTED = {f"designer/rejected/{gate}": gate for gate in GATES}
_STAGES = {
    f"time/{stage}_s": stage for stage in ("design", "play", "update", "evaluation", "store", "checkpoint")
}  # fmt: skip


@dataclass(frozen=True)
class Plot:
    """One figure of the report. ``draw`` makes it, or is None if nothing that it shows was measured yet."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure] | None


def run_plots(rows: Rows) -> tuple[Plot, ...]:
    """Every figure of a run; ``rows`` are the lines of its metrics log, that of iteration -1 included."""
    return tuple(_plots(rows))


def _plots(rows: Rows) -> Iterator[Plot]:
    def of(name: str, label: str) -> Curve:
        return curve(rows, name, label)

    in_family = curve(rows, "heldout/in_family", "in-family: unseen instances", offset=1)
    out_of_family = curve(rows, "heldout/out_of_family", "out-of-family: unseen families", offset=1)
    yield Plot(
        "held-out",
        "Held-out items",
        "Share of held-out items solved, with its 95 % bootstrap interval; at 0 nothing has been trained.",
        _if(in_family or out_of_family, plots.held_out, in_family, out_of_family),
    )
    plain, hinted = of("agent/plain_win_rate", "plain"), of("agent/hinted_win_rate", "hinted")
    yield Plot(
        "win-rates",
        "Win rates of the two arms",
        "Share of episodes won in the designer's own environments, with one standard error; those change every round, "
        "so that a flat line can be progress.",
        _if(plain or hinted, plots.win_rates, plain, hinted),
    )
    regret = of("environments/regret", "regret")
    yield Plot(
        "regret",
        "Regret",
        "Hinted minus plain return on the same seeds, with one standard error: what a hint would still be worth.",
        _if(regret, plots.regret, regret),
    )
    zones = stack(rows, _ZONES)
    yield Plot(
        "zones",
        "Zones",
        "Where the environments of the round lie for the agent of the iteration; there is most to learn at the "
        "frontier.",
        _if(zones, plots.zones, zones),
    )
    rates = (
        of("designer/validity", "all attempts"),
        of("designer/first_attempt_validity", "first attempt of a slot"),
    )
    rejected = stack(rows, _REJECTED)
    yield Plot(
        "validity",
        "Validity and rejections",
        "Left: share of attempts that became environments. Right: attempts that each gate turned down.",
        _if(any(rates) or rejected, plots.validity, rates, rejected),
    )
    rewards = (
        of("agent/plain_return", "agent: plain return"),
        of("designer/reward", "designer: all attempts"),
        of("designer/reward_valid", "designer: environments only"),
    )
    yield Plot(
        "rewards",
        "Agent and designer",
        "What the two roles earned; the designer is paid for environments at the frontier, not for hard ones.",
        _if(any(rewards), plots.rewards, *rewards),
    )
    variety = (
        of("diversity/families", "families"),
        of("diversity/nearest_similarity", "nearest in pool"),
        of("diversity/grounding", "own document"),
        of("diversity/grounding_control", "foreign document"),
    )
    yield Plot(
        "diversity",
        "Diversity",
        "Left: families among the round's environments. Right: similarity to the nearest in the pool, and the share "
        "of a program's words found in its own and in a foreign document; only the distance of those two counts.",
        _if(any(variety), plots.diversity, *variety),
    )
    differences = (
        of("learning/logprob_mismatch", "mean"),
        of("learning/logprob_mismatch_max", "largest"),
    )
    yield Plot(
        "mismatch",
        "Sampler against trainer",
        "Absolute difference of a token's log-probability between sampler and trainer, on a log scale (zeros are not "
        "shown); it should stay small and flat.",
        _if(any(differences), plots.mismatch, *differences),
    )
    stages = stack(rows, _STAGES)
    yield Plot(
        "time",
        "Time by stage",
        "Seconds of each iteration by stage; the checkpoint's are those of the one before.",
        _if(stages, plots.time_by_stage, stages),
    )


def _if(there: object, draw: Callable[..., Figure], *args: object) -> Callable[[], Figure] | None:
    return partial(draw, *args) if there else None
