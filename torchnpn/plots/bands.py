"""Predictions with their bands along one input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter

from torchnpn.plots.axes import ends, series
from torchnpn.plots.style import LIGHT, PANEL, Array, Theme, dashed, dots, legend, line, panel, panels, plain

_BAND_ALPHA = 0.17  # of each of three layers


class Band(NamedTuple):
    """A predictive mean and standard deviation along a grid."""

    name: str
    mean: Array
    std: Array


class Interval(NamedTuple):
    """A predictive mean with two intervals: of the rate itself, and of a count."""

    mean: Array
    rate_low: Array
    rate_high: Array
    low: Array
    high: Array


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
    """
    reach = 1.05 * float(np.abs(truth).max())
    size = (PANEL[0] * columns, PANEL[1]) if len(bands) == 1 else PANEL  # one panel is as wide as two
    with panels(len(bands), columns, theme, size) as (figure, axes):
        for i, (ax, band) in enumerate(zip(axes, bands, strict=True)):
            colour = theme.series[i]
            for k in (3, 2, 1):
                low, high = band.mean - k * band.std, band.mean + k * band.std
                ax.fill_between(grid, low, high, color=colour, alpha=_BAND_ALPHA, linewidth=0)
            ax.plot(grid, truth, **theme.dashes)
            ax.plot(grid, band.mean, color=colour, linewidth=2)
            ax.plot(x, y, "o", color=theme.ink, markersize=4.2, markeredgecolor=theme.background, markeredgewidth=0.7)
            ax.set(title=band.name, xlabel="x", ylabel="y", xlim=(grid[0], grid[-1]), ylim=(-reach, reach))
        shades = [
            Patch(color=theme.muted, alpha=1 - (1 - _BAND_ALPHA) ** (4 - k), linewidth=0, label=f"±{k} std")
            for k in (1, 2, 3)
        ]
        lines = [
            dots(theme.ink, "data"),
            dashed(theme, "true curve"),
            line(theme.muted, "predicted mean"),
        ]
        legend(figure, theme, [*lines, *shades], columns)
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
    """
    ours, name = theme.series[0], f"{level:.0%}"
    with panels(2, columns, theme) as (figure, (left, right)):
        left.fill_between(grid, curve.low, curve.high, step="mid", color=ours, alpha=0.16, linewidth=0)
        left.fill_between(grid, curve.rate_low, curve.rate_high, color=ours, alpha=0.4, linewidth=0)
        left.plot(x, y, "o", color=theme.muted, markersize=2.6, alpha=0.55, markeredgewidth=0)
        left.plot(grid, truth, **theme.dashes)
        left.plot(grid, curve.mean, color=ours, linewidth=2)
        left.set(title="Counts along x", xlabel="x", ylabel="count", xlim=(grid[0], grid[-1]), ylim=(-0.5, None))

        order = np.argsort(test_truth)[:: max(1, len(test_truth) // 70)]
        t, spans = test_truth[order], (test.rate_low[order], test.rate_high[order])
        ends = 0.8 * min(t.min(), spans[0].min()), 1.25 * max(t.max(), spans[1].max())
        right.plot(ends, ends, **theme.dashes)
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
            dashed(theme, "true rate"),
            Line2D([], [], color=ours, linewidth=2, marker="o", markersize=3, label="predicted rate"),
            Patch(color=ours, alpha=0.5, linewidth=0, label=f"{name} of the rate"),
            Patch(color=ours, alpha=0.16, linewidth=0, label=f"{name} of a count"),
        ]
        legend(figure, theme, handles, columns)
    return figure


def predictive_bands(
    x: Array,
    y: Array,
    grid: Array,
    mean: Array,
    intervals: Mapping[float, tuple[Array, Array]],
    *,
    xlabel: str = "x",
    ylabel: str = "y",
    columns: int = 1,
    theme: Theme = LIGHT,
) -> Figure:
    """Points, predicted mean and intervals along one input.

    Args:
        x: (rows,) inputs of the points.
        y: (rows,) targets of the points.
        grid: (places,) where predictions were made.
        mean: (places,) predicted means.
        intervals: By level, e.g. `{0.5: predictive.interval(0.5), 0.9: predictive.interval(0.9)}`.
        xlabel: Name of the input.
        ylabel: Name of the target.
    """
    x, y = series("predictive_bands", x=x, y=y)
    levels = sorted(intervals, reverse=True)
    lows = {f"low of {level:g}": intervals[level][0] for level in levels}
    highs = {f"high of {level:g}": intervals[level][1] for level in levels}
    grid, mean, *sides = series("predictive_bands", grid=grid, mean=mean, **lows, **highs)
    order = np.argsort(grid, kind="stable")
    ours, reach = theme.series[0], float(np.ptp(np.append(y, mean))) or np.inf
    with panel(columns, theme) as (figure, ax):
        for low, high in zip(sides[: len(levels)], sides[len(levels) :], strict=True):
            ax.fill_between(grid[order], low[order], high[order], color=ours, alpha=_BAND_ALPHA, linewidth=0)
        ax.plot(grid[order], mean[order], color=ours, linewidth=2)
        many = y.size > 150
        size, alpha = (2.6, 0.45) if many else (4.2, 1.0)
        ax.plot(x, y, "o", color=theme.ink, markersize=size, alpha=alpha, markeredgewidth=0)
        ax.set(xlabel=plain(xlabel), ylabel=plain(ylabel), xlim=ends(x, grid, margin=0.01))
        bottom, top = ends(y, mean, *sides)  # a band that opens far outside the data must not flatten all else
        ax.set_ylim(max(bottom, min(y.min(), mean.min()) - reach), min(top, max(y.max(), mean.max()) + reach))
        shades = [
            Patch(color=ours, alpha=1 - (1 - _BAND_ALPHA) ** (i + 1), linewidth=0, label=f"{100 * level:.4g}%")
            for i, level in enumerate(levels)
        ]
        legend(figure, theme, [dots(theme.ink, "data"), line(ours, "predicted mean"), *reversed(shades)], columns)
    return figure
