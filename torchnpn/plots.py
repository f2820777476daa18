"""Figures in one style; each function takes arrays and returns a matplotlib `Figure`, and touches no global state."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Theme:
    """Colours of a figure."""

    background: str
    ink: str  # text, points, the truth
    muted: str  # axes, labels of ticks
    grid: str
    series: tuple[str, ...]  # ours first
    cmap: str  # of images


LIGHT = Theme("#ffffff", "#1d2430", "#5f6977", "#e8ebef", ("#2f6aa8", "#c2703d", "#6f8f5c"), "Greys")
DARK = Theme("#171b22", "#e8eaee", "#9ba5b3", "#2b313b", ("#7db3ec", "#e79e6d", "#a5c48f"), "gray")

_PANEL = 4.4, 3.3  # inches
_BAND_ALPHA = 0.17  # of each of three layers
_STYLE: dict[Any, Any] = {
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


class Band(NamedTuple):
    """A predictive mean and standard deviation along a grid."""

    name: str
    mean: Array
    std: Array


class Doubt(NamedTuple):
    """How a classifier's errors lie along its uncertainty."""

    name: str
    accuracy: Array  # of groups, from the most certain to the least
    error: Array  # standard errors of these
    coverage: Array  # shares of predictions kept
    risk: Array  # error rates among them


class Guess(NamedTuple):
    """An image and what a classifier makes of it."""

    image: Array
    label: str
    predicted: str
    probability: float


class Interval(NamedTuple):
    """A predictive mean with two intervals: of the rate itself, and of a count."""

    mean: Array
    rate_low: Array
    rate_high: Array
    low: Array
    high: Array


def png(figure: Figure, dpi: int = 150) -> bytes:
    """The figure as a PNG file's bytes; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def regression_bands(
    x: Array, y: Array, grid: Array, truth: Array, bands: Sequence[Band], *, columns: int = 2, theme: Theme = LIGHT
) -> Figure:
    """One panel for each model: points, true curve, predictive mean, and ±1, ±2, ±3 standard deviations.

    Args:
        x: Inputs of the points.
        y: Targets of the points.
        grid: Where predictions were made.
        truth: True curve along the grid.
        bands: Models.
        columns: Panels side by side.
        theme: Colours.
    """
    reach = 1.05 * float(np.abs(truth).max())
    with _panels(len(bands), columns, theme) as (figure, axes):
        for i, (ax, band) in enumerate(zip(axes, bands, strict=True)):
            colour = theme.series[i]
            for k in (3, 2, 1):
                low, high = band.mean - k * band.std, band.mean + k * band.std
                ax.fill_between(grid, low, high, color=colour, alpha=_BAND_ALPHA, linewidth=0)
            ax.plot(grid, truth, color=theme.ink, linewidth=1.2, linestyle=(0, (4, 2.5)))
            ax.plot(grid, band.mean, color=colour, linewidth=2)
            ax.plot(x, y, "o", color=theme.ink, markersize=4.2, markeredgecolor=theme.background, markeredgewidth=0.7)
            ax.set(title=band.name, xlabel="x", ylabel="y", xlim=(grid[0], grid[-1]), ylim=(-reach, reach))
        shades = [
            Patch(color=theme.muted, alpha=1 - (1 - _BAND_ALPHA) ** (4 - k), linewidth=0, label=f"±{k} std")
            for k in (1, 2, 3)
        ]
        lines = [
            Line2D([], [], color=theme.ink, marker="o", linestyle="", markersize=4.2, label="data"),
            Line2D([], [], color=theme.ink, linewidth=1.2, linestyle=(0, (4, 2.5)), label="true curve"),
            Line2D([], [], color=theme.muted, linewidth=2, label="predicted mean"),
        ]
        _legend(figure, theme, [*lines, *shades], columns)
    return figure


def doubt(models: Sequence[Doubt], *, columns: int = 2, theme: Theme = LIGHT) -> Figure:
    """Accuracy by rising uncertainty, and the error rate among the predictions kept, for each model.

    Args:
        models: Models, ours first.
        columns: Panels side by side.
        theme: Colours.
    """
    with _panels(2, columns, theme) as (figure, (left, right)):
        handles = []
        for i, (model, marker) in enumerate(zip(models, "os^", strict=False)):
            colour = theme.series[i]
            group = np.arange(1, len(model.accuracy) + 1) + 0.14 * (i - (len(models) - 1) / 2)
            left.vlines(
                group,
                model.accuracy - model.error,
                np.minimum(model.accuracy + model.error, 1.0),
                color=colour,
                linewidth=1.2,
                alpha=0.6,
            )
            left.plot(group, model.accuracy, marker, color=colour, markersize=5)
            right.plot(model.coverage, model.risk, color=colour, linewidth=2)
            handles.append(Line2D([], [], color=colour, marker=marker, markersize=5, linewidth=2, label=model.name))
        groups = len(models[0].accuracy)
        left.set(title="Accuracy by uncertainty", ylabel="accuracy", xticks=range(1, groups + 1))
        left.set_xlabel("group of test digits, certain → uncertain")
        left.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        right.set(title="Error among the answers kept", ylabel="error rate", xlim=(0, 1), ylim=(0, None))
        right.set_xlabel("share of digits answered, most certain first")
        for axis in (right.xaxis, right.yaxis):
            axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        _legend(figure, theme, handles, columns)
    return figure


def guesses(items: Sequence[Guess], *, columns: int = 8, theme: Theme = LIGHT) -> Figure:
    """Images with the predicted class and its probability; where it is wrong, the true class stands below.

    Args:
        items: Images and what was made of them.
        columns: Images side by side.
        theme: Colours.
    """
    with matplotlib.rc_context(_STYLE):
        rows = -(-len(items) // columns)
        figure = Figure((1.1 * columns, 1.62 * rows), facecolor=theme.background, layout="constrained")
        for i, item in enumerate(items):
            ax = figure.add_subplot(rows, columns, i + 1)
            ax.imshow(item.image, cmap=theme.cmap, vmin=0, interpolation="nearest")
            ax.set_axis_off()
            right = item.predicted == item.label
            colour = theme.ink if right else theme.series[1]
            ax.set_title(f"{item.predicted}  {item.probability:.0%}", loc="center", color=colour, fontsize=10, pad=4)
            below = "right" if right else f"is a {item.label}"
            ax.text(0.5, -0.06, below, transform=ax.transAxes, ha="center", va="top", color=theme.muted, fontsize=9)
    return figure


def count_intervals(
    x: Array,
    y: Array,
    grid: Array,
    truth: Array,
    curve: Interval,
    test_truth: Array,
    test: Interval,
    *,
    level: float = 0.9,
    columns: int = 2,
    theme: Theme = LIGHT,
) -> Figure:
    """Counts with predicted rate and intervals along x, and predicted against true rates.

    Args:
        x: Inputs of the rows.
        y: Their counts.
        grid: Where predictions were made.
        truth: True rate along the grid.
        curve: Predictions along the grid.
        test_truth: True rates of test rows.
        test: Predictions for the test rows.
        level: Of the intervals.
        columns: Panels side by side.
        theme: Colours.
    """
    ours, name = theme.series[0], f"{level:.0%}"
    with _panels(2, columns, theme) as (figure, (left, right)):
        left.fill_between(grid, curve.low, curve.high, step="mid", color=ours, alpha=0.16, linewidth=0)
        left.fill_between(grid, curve.rate_low, curve.rate_high, color=ours, alpha=0.4, linewidth=0)
        left.plot(x, y, "o", color=theme.muted, markersize=2.6, alpha=0.55, markeredgewidth=0)
        left.plot(grid, truth, color=theme.ink, linewidth=1.2, linestyle=(0, (4, 2.5)))
        left.plot(grid, curve.mean, color=ours, linewidth=2)
        left.set(title="Counts along x", xlabel="x", ylabel="count", xlim=(grid[0], grid[-1]), ylim=(-0.5, None))

        order = np.argsort(test_truth)[:: max(1, len(test_truth) // 70)]
        t, spans = test_truth[order], (test.rate_low[order], test.rate_high[order])
        ends = 0.8 * min(t.min(), spans[0].min()), 1.25 * max(t.max(), spans[1].max())
        right.plot(ends, ends, color=theme.ink, linewidth=1.2, linestyle=(0, (4, 2.5)))
        right.vlines(t, *spans, color=ours, alpha=0.45, linewidth=1.6)
        right.plot(t, test.mean[order], "o", color=ours, markersize=3, markeredgewidth=0)
        right.set(title="Predicted against true rate", xlabel="true rate", ylabel="predicted rate")
        right.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
        for axis in (right.xaxis, right.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        handles = [
            Line2D([], [], color=theme.muted, marker="o", linestyle="", markersize=4, alpha=0.8, label="counts"),
            Line2D([], [], color=theme.ink, linewidth=1.2, linestyle=(0, (4, 2.5)), label="true rate"),
            Line2D([], [], color=ours, linewidth=2, marker="o", markersize=3, label="predicted rate"),
            Patch(color=ours, alpha=0.5, linewidth=0, label=f"{name} of the rate"),
            Patch(color=ours, alpha=0.16, linewidth=0, label=f"{name} of a count"),
        ]
        _legend(figure, theme, handles, columns)
    return figure


@contextmanager
def _panels(count: int, columns: int, theme: Theme) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of `count` panels in the common style."""
    colours: dict[Any, Any] = {
        "axes.facecolor": theme.background,
        "axes.edgecolor": theme.grid,
        "axes.titlecolor": theme.ink,
        "axes.labelcolor": theme.muted,
    }
    with matplotlib.rc_context({**_STYLE, **colours}):
        columns = min(columns, count)
        rows = -(-count // columns)
        size = _PANEL[0] * columns, _PANEL[1] * rows + 0.35
        layout = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.09, wspace=0.03, hspace=0.04)
        figure = Figure(size, facecolor=theme.background, layout=layout)
        axes = [figure.add_subplot(rows, columns, i + 1) for i in range(count)]
        for ax in axes:
            ax.grid(color=theme.grid, linewidth=0.8)
            ax.tick_params(which="both", colors=theme.muted, length=0, labelsize=9)  # ticks made later take these too
        yield figure, axes


def _legend(figure: Figure, theme: Theme, handles: Sequence[Artist], columns: int) -> None:
    """One legend for the figure, below all panels."""
    across = len(handles) if columns > 1 else 3
    figure.legend(
        handles=list(handles),
        loc="outside lower center",
        ncols=across,
        labelcolor=theme.ink,
        handlelength=1.5,
        columnspacing=1.5,
    )
