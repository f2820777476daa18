"""The common style of all figures: colours, panels, names, the legend, and the PNG file."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from numpy.typing import NDArray

Array = NDArray[Any]
DASHED = (0, (4, 2.5))


@dataclass(frozen=True)
class Theme:
    """Colours of a figure."""

    background: str
    ink: str  # text, points, the truth
    muted: str  # axes, labels of ticks
    grid: str
    series: tuple[str, ...]  # ours first
    cmap: str  # of images

    @property
    def dashes(self) -> dict[str, Any]:
        """How the truth is drawn, or what a calibrated model would show."""
        return {"color": self.ink, "linewidth": 1.2, "linestyle": DASHED}


LIGHT = Theme(
    background="#ffffff",
    ink="#1d2430",
    muted="#5f6977",
    grid="#e8ebef",
    series=("#2f6aa8", "#c2703d", "#6f8f5c", "#8a5a9e", "#b0912f", "#3f8f8f", "#a8485a"),
    cmap="Greys",
)
DARK = Theme(
    background="#171b22",
    ink="#e8eaee",
    muted="#9ba5b3",
    grid="#2b313b",
    series=("#7db3ec", "#e79e6d", "#a5c48f", "#c79bd8", "#d9c06a", "#7cc7c4", "#e48c9b"),
    cmap="gray",
)

PANEL = 4.4, 3.3  # inches
LEGEND_HEIGHT = 0.35
_LETTER, _HANDLE, _ROW = 0.072, 0.48, 0.18  # inches in the legend: a letter, all that stands beside a label, a row
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same figure everywhere
    "font.size": 9.5,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.solid_capstyle": "round",
}


def png(figure: Figure, dpi: int = 150) -> bytes:
    """The figure as a PNG file's bytes; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


@contextmanager
def panels(
    count: int, columns: int, theme: Theme, size: tuple[float, float] = PANEL
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of `count` panels of `size` inches in the common style."""
    colours: dict[Any, Any] = {
        "axes.facecolor": theme.background,
        "axes.edgecolor": theme.grid,
        "axes.titlecolor": theme.ink,
        "axes.labelcolor": theme.muted,
    }
    with matplotlib.rc_context({**STYLE, **colours}):
        columns = min(columns, count)
        rows = -(-count // columns)
        inches = size[0] * columns, size[1] * rows + LEGEND_HEIGHT
        layout = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.09, wspace=0.03, hspace=0.04)
        figure = Figure(inches, facecolor=theme.background, layout=layout)
        axes = [figure.add_subplot(rows, columns, i + 1) for i in range(count)]
        for ax in axes:
            ax.grid(color=theme.grid, linewidth=0.8)
            ax.tick_params(which="both", colors=theme.muted, length=0, labelsize=9)  # ticks made later take these too
        yield figure, axes


@contextmanager
def panel(columns: int, theme: Theme) -> Iterator[tuple[Figure, Axes]]:
    """A figure of one panel that is as wide as `columns` of them."""
    with panels(1, 1, theme, (PANEL[0] * columns, PANEL[1])) as (figure, (ax,)):
        yield figure, ax


def legend(figure: Figure, theme: Theme, handles: Sequence[Artist], columns: int) -> None:
    """One legend for the figure, below all panels, in as many rows as its labels need."""
    widths = [_HANDLE + _LETTER * len(str(handle.get_label())) for handle in handles]
    across = len(handles) if columns > 1 else min(3, len(handles))
    while across > 1 and _legend_width(widths, across) > figure.get_figwidth() - 0.2:
        across -= 1
    rows = -(-len(handles) // across)
    figure.set_figheight(figure.get_figheight() + _ROW * max(0, rows - 2))  # panels keep their height
    figure.legend(
        handles=list(handles),
        loc="outside lower center",
        ncols=across,
        labelcolor=theme.ink,
        handlelength=1.5,
        columnspacing=1.5,
    )


def _legend_width(widths: Sequence[float], across: int) -> float:
    """Matplotlib fills the columns one after the other; the first ones are longer by one where they cannot be equal."""
    length, longer = divmod(len(widths), across)
    starts = [i * length + min(i, longer) for i in range(across + 1)]
    return sum(max(widths[a:b]) for a, b in itertools.pairwise(starts))


def dots(colour: str, label: str) -> Line2D:
    """A legend's entry for points."""
    return Line2D([], [], color=colour, marker="o", linestyle="", markersize=4.2, label=label)


def line(colour: str, label: str) -> Line2D:
    """A legend's entry for a line."""
    return Line2D([], [], color=colour, linewidth=2, label=label)


def dashed(theme: Theme, label: str) -> Line2D:
    """A legend's entry for the truth."""
    return Line2D([], [], **theme.dashes, label=label)


def plain(name: object, longest: int = 32) -> str:
    """A name from outside, drawn as it is: one line, no formula; where it is long, the middle is left out."""
    text = " ".join(str(name).split())
    if len(text) > longest:
        text = f"{text[: longest // 2]}…{text[len(text) - (longest - longest // 2 - 1) :]}"
    return text.replace("$", r"\$")
