"""Curves from the lines of a metrics log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Curve:
    """Values ``y`` at ``x``, in order; ``low`` and ``high`` are the ends of an interval of each value, if it has one.

    All of the same length; an empty curve was never measured.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name, values in (("y", self.y), ("low", self.low), ("high", self.high)):
            if values is not None and len(values) != len(self.x):
                raise ValueError(f"curve {self.label!r} has {len(self.x)} places but {len(values)} values of {name}")

    def __bool__(self) -> bool:
        return bool(self.x)


def curve(rows: Rows, name: str, label: str, *, offset: int = 0) -> Curve:
    """The metric ``name`` wherever it was measured, against the iteration plus ``offset``.

    Its interval is `NAME_low` to `NAME_high` if those were logged, or else one `NAME_stderr` to either side.
    """
    found = [row for row in rows if row.get(name) is not None]
    x = tuple(float(row["iteration"] + offset) for row in found)
    y = tuple(float(row[name]) for row in found)
    if found and all(_has(row, f"{name}_low") and _has(row, f"{name}_high") for row in found):
        low = tuple(float(row[f"{name}_low"]) for row in found)
        high = tuple(float(row[f"{name}_high"]) for row in found)
        return Curve(label, x, y, low, high)
    errors = [row.get(f"{name}_stderr") for row in found]
    if any(error is not None for error in errors):
        # A mean over a single environment has no standard error: its interval is drawn as a point.
        low = tuple(value - (error or 0.0) for value, error in zip(y, errors, strict=True))
        high = tuple(value + (error or 0.0) for value, error in zip(y, errors, strict=True))
        return Curve(label, x, y, low, high)
    return Curve(label, x, y)


def stack(rows: Rows, names: Mapping[str, str]) -> tuple[Curve, ...]:
    """Metrics (name to label) that are parts of a whole, at the iterations that have any; absent parts are 0."""
    found = [row for row in rows if any(_has(row, name) for name in names)]
    x = tuple(float(row["iteration"]) for row in found)
    curves = (Curve(label, x, tuple(float(row.get(name) or 0.0) for row in found)) for name, label in names.items())
    return tuple(one for one in curves if any(one.y))


def _has(row: Mapping[str, Any], name: str) -> bool:
    return row.get(name) is not None
