"""The report of a run: one HTML file that needs nothing else, and the same as Markdown with images beside it.

Covered: any run directory, also one that is being written or has nothing yet; the report then says what is missing.
Not covered: judging. The report shows intervals and names what was not measured.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from spadework.analysis import style, writing
from spadework.analysis.facts import FateFacts, fates, held_out_facts, isolation_facts
from spadework.analysis.figures import run_plots
from spadework.analysis.gallery import Exhibit, gallery
from spadework.config import Config
from spadework.store.atomic import write_atomically
from spadework.store.glossary import METRICS
from spadework.store.metrics import read_metrics
from spadework.store.reader import PoolReader
from spadework.store.run_directory import RunDirectory

FOLDER = "report"
_PACKAGES = ("spadework", "numpy", "torch", "transformers", "renderers", "matplotlib")
_EXCERPT_CHARS = 1500
_TEXT_CHARS = 4000
_TURNS_SHOWN = 12


@dataclass(frozen=True)
class ReportPaths:
    html: Path
    markdown: Path


@dataclass(frozen=True)
class _Drawn:
    """A plot as it stands in the report; ``image`` is None if there was nothing to draw."""

    title: str
    caption: str
    image: str | None
    file: str


@dataclass(frozen=True)
class _Setting:
    key: str
    value: str
    default: str | None
    """What it is by default, None if it is that."""


def write_report(run: Path, out: Path | None = None) -> ReportPaths:
    """Write `report.html`, `report.md` and its images to ``out``, or to `report/` in the run.

    The run is only read, so it may be live. An older report there is replaced.
    Raises StoreError if the run cannot be read, PlotsUnavailable without matplotlib, OSError if ``out`` cannot be
    written.
    """
    directory = RunDirectory.open_readonly(run)
    out = directory.path / FOLDER if out is None else out
    rows = read_metrics(directory.metrics)
    ended_fates, exhibits = _from_pool(directory)
    out.mkdir(parents=True, exist_ok=True)
    facts = {
        "name": directory.path.resolve().name,
        "created": directory.created,
        "iterations": sum(row["iteration"] >= 0 for row in rows),
        "planned": directory.config.iterations,
        "isolation": isolation_facts(directory.starts()),
        "held_out": held_out_facts(run, rows, directory.config.evaluation.bootstrap_samples),
        "fates": ended_fates,
        "attempts": sum(fate.count for fate in ended_fates),
        "plots": tuple(_draw(rows, out)),
        "exhibits": exhibits,
        "metrics": METRICS,
        "last": _last_values(rows),
        "settings": tuple(_settings(directory.config)),
        "written_by": str(json.loads((run / "run.json").read_text(encoding="utf-8")).get("spadework")),
        "versions": _versions(),
        "turns_shown": _TURNS_SHOWN,
    }
    paths = ReportPaths(out / "report.html", out / "report.md")
    for path in (paths.html, paths.markdown):
        environment = _environment(escapes=path == paths.html)
        text = environment.get_template(f"{path.name}.jinja").render(facts)
        write_atomically(path, writing.printable(text).encode())
    return paths


def _from_pool(directory: RunDirectory) -> tuple[tuple[FateFacts, ...], tuple[Exhibit, ...]]:
    if not directory.pool.exists():
        return (), ()
    with closing(PoolReader.open(directory.pool)) as pool:
        return fates(pool), gallery(pool, directory.config.curriculum.skills)


def _draw(rows: list[dict[str, Any]], out: Path) -> Iterator[_Drawn]:
    for plot in run_plots(rows):
        file = out / f"{plot.name}.png"
        if plot.draw is None:
            # An image of an older report would look like one of this.
            file.unlink(missing_ok=True)
            yield _Drawn(plot.title, plot.caption, None, file.name)
            continue
        figure = plot.draw()
        write_atomically(file, style.png(figure))
        yield _Drawn(plot.title, plot.caption, style.svg_data_uri(figure), file.name)


def _last_values(rows: list[dict[str, Any]]) -> dict[str, tuple[float | None, int]]:
    """Of every metric that was logged, the last value and the iteration it is of."""
    found: dict[str, tuple[float | None, int]] = {}
    for row in rows:
        found |= {name: (row[name], row["iteration"]) for name in row if name in METRICS}
    return found


def _settings(config: Config) -> Iterator[_Setting]:
    defaults = dict(_flat(Config().model_dump(mode="json")))
    for key, value in _flat(config.model_dump(mode="json")):
        shown, usual = json.dumps(value), json.dumps(defaults.get(key))
        yield _Setting(key, shown, None if shown == usual else usual)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _environment(*, escapes: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("spadework.analysis"),
        autoescape=escapes,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "inline": writing.inline,
        "fenced": writing.fenced,
        "number": writing.number,
        "percent": lambda share: f"{100 * share:.1f} %",
        "rate": lambda share: f"{share:.3f}",
        "signed": lambda value: f"{value:+.3f}",
        "document": lambda text: writing.excerpt(text, _EXCERPT_CHARS),
        "clipped": lambda text: writing.excerpt(text, _TEXT_CHARS),
    }
    return environment
