"""How every plot looks, and how it becomes a file. Matplotlib is imported when the first figure is made.

Colours are told apart with the common forms of colour blindness and read on light and on dark ground. Text and axes
of an SVG follow the colour scheme of whoever looks at it.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE, RED, GOLD, TEAL, GREY = SERIES = (
    *("#2f7ed8", "#e8743b", "#19a979", "#945ecf", "#dc4a5d", "#d9a514", "#13a4b4", "#8a9099"),
)

INK, MUTED, GRID, GROUND = "#24292f", "#5b646e", "#e3e6ea", "#fffffe"
_DARK = {INK: "#e6e9ed", MUTED: "#a3abb5", GRID: "#333a43", GROUND: "#15181d"}

WIDTH_IN, HEIGHT_IN = 7.2, 3.1
PNG_DPI = 160

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "svg.hashsalt": "spadework",
    "svg.fonttype": "path",
}


class PlotsUnavailable(RuntimeError):
    """Matplotlib is not installed."""


def new_figure(panels: int = 1) -> tuple[Figure, Sequence[Axes]]:
    """A figure with ``panels`` side by side. Raises PlotsUnavailable."""
    try:
        # Imported here: it takes a second, and only reports draw.
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise PlotsUnavailable(
            f"plots cannot be drawn ({error}); install matplotlib with: pip install 'spadework[train]'"
        ) from error
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), layout=ConstrainedLayoutEngine(h_pad=0.09, w_pad=0.09))
        FigureCanvasAgg(figure)
        axes = figure.subplots(1, panels, squeeze=False)[0]
    return figure, tuple(axes)


def heading(axes: Axes, text: str) -> None:
    """What a panel of several shows."""
    axes.set_title(text, loc="left", fontsize=9.5, color=INK, pad=8.0)


def legend(axes: Axes, handles: Sequence[Artist], labels: Sequence[str], columns: int) -> None:
    """The names of the curves, below the axes and clear of them."""
    axes.legend(
        *(handles, labels),
        loc="upper center",
        bbox_to_anchor=(0.5, -0.19),
        ncols=min(len(labels), columns),
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=1.4,
        columnspacing=1.4,
    )


def svg_data_uri(figure: Figure) -> str:
    """The figure as an image that needs no other file and follows the viewer's light or dark scheme."""
    text = _saved(figure, "svg", metadata={"Date": None, "Creator": None}).decode()
    for number, colour in enumerate(_DARK):
        text = text.replace(colour, f"var(--c{number})")
    light = "".join(f"--c{number}:{colour};" for number, colour in enumerate(_DARK))
    dark = "".join(f"--c{number}:{colour};" for number, colour in enumerate(_DARK.values()))
    scheme = f"<style>:root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
    head, mark, tail = text.partition("<defs>")
    return "data:image/svg+xml;base64," + base64.b64encode((head + scheme + mark + tail).encode()).decode()


def png(figure: Figure) -> bytes:
    """The figure on white ground."""
    return _saved(figure, "png", dpi=PNG_DPI, facecolor="white", metadata={"Software": None})


def _saved(figure: Figure, kind: str, **options: Any) -> bytes:
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format=kind, **options)
    # The first drawing has found the layout, and finding it again would take as long as drawing.
    figure.set_layout_engine("none")
    return buffer.getvalue()
