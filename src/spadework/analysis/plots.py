"""The figures of a report, each over plain curves. None of them reads a run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from spadework.analysis.series import Curve
from spadework.analysis.style import (
    BLUE,
    GOLD,
    GREEN,
    GREY,
    GROUND,
    MUTED,
    ORANGE,
    PURPLE,
    RED,
    SERIES,
    TEAL,
    heading,
    legend,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEW_POINTS = 30
_WHISKERS_UP_TO = 3
_BESIDE = 0.012
_BAND_ALPHA = 0.18
_STACK_ALPHA = 0.88
_STAGE_COLOURS = (PURPLE, BLUE, ORANGE, GREEN, GOLD, TEAL, GREY)


def held_out(in_family: Curve, out_of_family: Curve) -> Figure:
    """Share of held-out items solved against iterations trained, with its interval."""
    figure, (axes,) = new_figure()
    _draw(axes, (in_family, out_of_family), (BLUE, ORANGE))
    _finish(axes, "share solved", unit=True, x_label="iterations trained")
    return figure


def win_rates(plain: Curve, hinted: Curve) -> Figure:
    """Win rates of the two arms, with a standard error to either side."""
    figure, (axes,) = new_figure()
    _draw(axes, (hinted, plain), (ORANGE, BLUE))
    _finish(axes, "win rate", unit=True)
    return figure


def regret(measured: Curve) -> Figure:
    """Regret with a standard error to either side, and the zero line."""
    figure, (axes,) = new_figure()
    axes.axhline(0.0, color=MUTED, linewidth=0.9)
    _draw(axes, (measured,), (GREEN,))
    _finish(axes, "hinted minus plain return")
    return figure


def zones(parts: Sequence[Curve]) -> Figure:
    """Shares of the round's environments by zone; ``parts`` are mastered, frontier and unsolvable, as far as seen."""
    figure, (axes,) = new_figure()
    colours = {"mastered": BLUE, "frontier": GREEN, "unsolvable": RED}
    _stack(axes, parts, [colours.get(part.label, GREY) for part in parts])
    _finish(axes, "share of environments", unit=True)
    return figure


def validity(rates: Sequence[Curve], rejections: Sequence[Curve]) -> Figure:
    """Left: shares of attempts that became environments. Right: rejected attempts by gate."""
    figure, (left, right) = new_figure(2)
    _draw(left, rates, (GREEN, GREY))
    _finish(left, "share of attempts", unit=True, title="Validity")
    _stack(right, rejections, _cycle(len(rejections)))
    _finish(right, "attempts", title="Rejected by gate", whole=True)
    return figure


def rewards(agent: Curve, designer: Curve, designer_valid: Curve) -> Figure:
    """Mean return of the agent and mean reward of the designer."""
    figure, (axes,) = new_figure()
    axes.axhline(0.0, color=MUTED, linewidth=0.9)
    _draw(axes, (agent, designer, designer_valid), (BLUE, PURPLE, GREY))
    _finish(axes, "mean return or reward")
    return figure


def diversity(families: Curve, similarity: Curve, grounding: Curve, control: Curve) -> Figure:
    """Left: families of a round. Right: likeness to the pool and to documents, own and foreign."""
    figure, (left, right) = new_figure(2)
    _draw(left, (families,), (TEAL,))
    _finish(left, "families in a round", title="Families", whole=True)
    left.set_ylim(bottom=0)
    _draw(right, (similarity, grounding, control), (RED, GREEN, GREY))
    _finish(right, "share", unit=True, title="Likeness")
    return figure


def mismatch(mean: Curve, largest: Curve) -> Figure:
    """Difference of log-probabilities between sampler and trainer, on a log scale; zeros cannot be shown there."""
    figure, (axes,) = new_figure()
    positive = [_positive(one) for one in (largest, mean)]
    if any(positive):
        axes.set_yscale("log")
    else:
        axes.text(0.5, 0.5, "exactly zero throughout", transform=axes.transAxes, ha="center", color=MUTED)
    _draw(axes, positive, (GREY, BLUE))
    _finish(axes, "nats per token")
    return figure


def time_by_stage(stages: Sequence[Curve]) -> Figure:
    """Seconds of an iteration by stage."""
    figure, (axes,) = new_figure()
    _stack(axes, stages, [_STAGE_COLOURS[number % len(_STAGE_COLOURS)] for number in range(len(stages))])
    _finish(axes, "seconds")
    return figure


def _draw(axes: Axes, curves: Sequence[Curve], colours: Sequence[str]) -> None:
    span = max((one.x[-1] - one.x[0] for one in curves if one), default=0.0) or 1.0
    for number, (one, colour) in enumerate(zip(curves, colours, strict=True)):
        if not one:
            continue
        few = len(one.x) <= _FEW_POINTS
        line: dict[str, Any] = {"color": colour, "label": one.label, "marker": "o" if few else None, "markersize": 3.8}
        if one.low is None or one.high is None:
            axes.plot(one.x, one.y, **line)
        elif len(one.x) <= _WHISKERS_UP_TO:
            below = [max(0.0, value - low) for value, low in zip(one.y, one.low, strict=True)]
            above = [max(0.0, high - value) for value, high in zip(one.y, one.high, strict=True)]
            # Side by side, so that whiskers of one place do not hide one another.
            beside = [x + _BESIDE * span * (number - (len(curves) - 1) / 2) for x in one.x]
            axes.errorbar(beside, one.y, yerr=(below, above), capsize=3, elinewidth=1.2, **line)
        else:
            axes.fill_between(one.x, one.low, one.high, color=colour, alpha=_BAND_ALPHA, linewidth=0)
            axes.plot(one.x, one.y, **line)


def _stack(axes: Axes, parts: Sequence[Curve], colours: Sequence[str]) -> None:
    """Filled parts on top of one another; bars where there are too few places for an area."""
    if not parts:
        return
    x = parts[0].x
    if len(x) <= _FEW_POINTS:
        width = 0.8 * min((late - early for early, late in pairwise(x)), default=1.0)
        bottom = [0.0] * len(x)
        for part, colour in zip(parts, colours, strict=True):
            axes.bar(
                x, part.y, width, bottom, color=colour, alpha=_STACK_ALPHA, edgecolor=GROUND, linewidth=0.5,
                label=part.label,
            )  # fmt: skip
            bottom = [low + value for low, value in zip(bottom, part.y, strict=True)]
        return
    axes.stackplot(
        x, *(part.y for part in parts), colors=list(colours), alpha=_STACK_ALPHA, labels=[part.label for part in parts],
        edgecolor=GROUND, linewidth=0.5,
    )  # fmt: skip


def _finish(
    axes: Axes, y_label: str, *, unit: bool = False, whole: bool = False, title: str = "", x_label: str = "iteration"
) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    if title:
        heading(axes, title)
    if unit:
        axes.set_ylim(0.0, 1.0)
    if whole:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color=MUTED)
    elif len(labels) > 1:
        legend(axes, handles, labels, columns=2 if title else 4)


def _positive(one: Curve) -> Curve:
    kept = [(x, y) for x, y in zip(one.x, one.y, strict=True) if y > 0]
    return Curve(one.label, tuple(x for x, _ in kept), tuple(y for _, y in kept))


def _cycle(count: int) -> list[str]:
    return [SERIES[(number + 1) % len(SERIES)] for number in range(count)]
