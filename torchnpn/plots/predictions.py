"""Predictions beside the truth, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from scipy import stats

from torchnpn.plots.axes import fit_scale, series
from torchnpn.plots.style import LIGHT, PANEL, STYLE, Array, Theme, dashed, dots, legend, panel, panels, plain

_LAST_STD = 5.0  # residuals beyond so many standard deviations are drawn in the outer bars


class Guess(NamedTuple):
    """An image and what a classifier makes of it."""

    image: Array
    label: str
    predicted: str
    probability: float


def guesses(items: Sequence[Guess], *, columns: int = 8, theme: Theme = LIGHT) -> Figure:
    """Images with the predicted class and its probability; where it is wrong, the true class stands below."""
    with matplotlib.rc_context(STYLE):
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


def prediction_intervals(
    y: Array,
    mean: Array,
    low: Array,
    high: Array,
    *,
    level: float = 0.9,
    name: str = "y",
    most: int = 100,
    columns: int = 2,
    theme: Theme = LIGHT,
) -> Figure:
    """Predicted against true values, and rows in the order of their prediction, with their intervals.

    Args:
        y: (rows,) targets.
        mean: (rows,) predicted means.
        low: (rows,) lower ends of the intervals.
        high: (rows,) upper ends.
        level: Of the intervals.
        name: Of the target.
        most: Rows to draw; of more, evenly spaced ones in sorted order.
    """
    y, mean, low, high = series("prediction_intervals", y=y, mean=mean, low=low, high=high)
    missed, (ours, other), name = (y < low) | (y > high), theme.series[:2], plain(name, 24)
    colours = np.where(missed, other, ours)
    values = np.concatenate([y, mean, np.quantile(low, [0.02, 1]), np.quantile(high, [0, 0.98])])
    with panels(2, columns, theme) as (figure, (left, right)):
        shown = _evenly(np.argsort(y, kind="stable"), most)
        limits = fit_scale(left, "x", values), fit_scale(left, "y", values)
        left.plot(*limits, **theme.dashes)
        left.vlines(y[shown], low[shown], high[shown], color=colours[shown], alpha=0.45, linewidth=1.6)
        left.scatter(y[shown], mean[shown], s=11, color=colours[shown], linewidth=0, zorder=3)
        left.set(title="Predicted against true", xlabel=f"true {name}", ylabel=f"predicted {name}")

        shown = _evenly(np.argsort(mean, kind="stable"), most)
        place = np.arange(shown.size)
        right.vlines(place, low[shown], high[shown], color=colours[shown], alpha=0.45, linewidth=1.6)
        right.scatter(place, y[shown], s=11, color=np.where(missed[shown], other, theme.ink), linewidth=0, zorder=3)
        right.set(title=f"{1 - missed.mean():.1%} of rows in {100 * level:.4g}% intervals", ylabel=name, xticks=[])
        right.set_xlabel("rows by predicted mean")
        fit_scale(right, "y", values)  # the few ends beyond it are cut: a quantile near zero has no end on a log axis
        handles = [
            dashed(theme, "predicted = true"),
            Patch(color=ours, alpha=0.45, linewidth=0, label="interval"),
            dots(ours, "predicted mean"),
            dots(theme.ink, "true value"),
            dots(other, "outside its interval"),
        ]
        legend(figure, theme, handles, columns)
    return figure


def residual_histogram(y: Array, mean: Array, std: Array, *, columns: int = 1, theme: Theme = LIGHT) -> Figure:
    """Histogram of (y - mean)/std beside the standard normal density.

    Args:
        y: (rows,) targets.
        mean: (rows,) predicted means.
        std: (rows,) predicted standard deviations.
    """
    y, mean, std = series("residual_histogram", y=y, mean=mean, std=std)
    if (std <= 0).any():
        raise ValueError(f"residual_histogram expects std > 0, got {std.min():g}.")
    z = (y - mean) / std
    bins = np.linspace(-_LAST_STD, _LAST_STD, int(np.clip(z.size // 5, 10, 40)) + 1)  # no comb of single rows
    outside = int((np.abs(z) > _LAST_STD).sum())
    with panel(columns, theme) as (figure, ax):
        share = np.histogram(np.clip(z, -_LAST_STD, _LAST_STD), bins)[0] / z.size
        ax.stairs(share / np.diff(bins), bins, fill=True, color=theme.series[0], alpha=0.55, linewidth=0)
        grid = np.linspace(-_LAST_STD, _LAST_STD, 201)
        ax.plot(grid, stats.norm.pdf(grid), **theme.dashes)
        title = f"Residuals, {outside:,} beyond ±{_LAST_STD:g} std" if outside else "Residuals"
        ax.set(title=title, xlabel="(true - predicted) / predicted std", ylabel="density", ylim=(0, None))
        bars = Patch(color=theme.series[0], alpha=0.55, linewidth=0, label="residuals")
        legend(figure, theme, [bars, dashed(theme, "standard normal")], columns)
    return figure


def confusion_matrix_plot(matrix: Array, labels: Sequence[object], *, columns: int = 1, theme: Theme = LIGHT) -> Figure:
    """True classes in rows, predicted ones in columns; the shade is the share of the true class.

    Args:
        matrix: (classes, classes) counts, e.g. scikit-learn's `confusion_matrix(y, predicted)`.
        labels: (classes,) names.
    """
    counts, classes = np.asarray(matrix, dtype=float), len(labels)
    if counts.shape != (classes, classes) or classes == 0:
        raise ValueError(
            f"confusion_matrix_plot expects a square matrix with a label for each row, "
            f"got shape {counts.shape} and {classes} labels."
        )
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)  # a class without rows is blank
    width = min(PANEL[0] * columns, max(PANEL[0], 1.8 + 0.5 * classes))
    names = [plain(label, 18 if width > 0.3 * classes else 12) for label in labels]
    longest = max(len(name) for name in names)
    upright = longest > 3 and (width - 1.2) / classes < 0.12 + 0.08 * longest
    cell = min(1.0, (width - 0.75 - 0.075 * longest) / classes)
    size = width, cell * classes + (0.75 + 0.075 * longest * upright) + 0.2
    cmap = LinearSegmentedColormap.from_list("shares", [theme.background, theme.series[0]])
    with panels(1, 1, theme, size) as (figure, (ax,)):
        ax.grid(visible=False)
        ax.pcolormesh(share, cmap=cmap, vmin=0, vmax=1, edgecolors=theme.grid, linewidth=0.6)
        middles = np.arange(classes) + 0.5
        ax.set(title="Confusion matrix", xlabel="predicted", ylabel="true", aspect="equal")
        ax.set_xticks(middles, names, rotation=90 if upright else 0)
        ax.set_yticks(middles, names)
        ax.invert_yaxis()
        ax.spines[:].set_visible(False)
        texts = [_short(count) if count else "" for count in counts.ravel()]  # zeros would hide the pattern
        fontsize = min(9.0, 72 * cell / (0.7 * max(map(len, texts)) + 0.6))
        if fontsize >= 4.5:  # smaller figures cannot be read: the shades alone
            for (row, column), text in zip(np.ndindex(counts.shape), texts, strict=True):
                colour = theme.background if share[row, column] > 0.55 else theme.ink
                place = column + 0.5, row + 0.5
                ax.text(*place, text, ha="center", va="center_baseline", fontsize=fontsize, color=colour)
    return figure


def _evenly(order: Array, most: int) -> Array:
    """At most `most` evenly spaced members, the first and the last among them."""
    places = np.linspace(0, order.size - 1, min(most, order.size)).round().astype(int)
    return np.asarray(order[places])


def _short(count: float) -> str:
    """Five letters at most."""
    if count < 10_000:
        return f"{count:.4g}"
    return f"{count / 1e3:.0f}k" if count < 1e6 else f"{count / 1e6:.3g}M"
