"""A prediction and its uncertainty along one feature, as of `inspection.partial_dependence`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from torchnpn.plots.axes import ends, percent, series
from torchnpn.plots.style import LIGHT, Array, Theme, legend, line, panels, plain


def dependence_plot(
    grid: Array,
    mean: Array,
    low: Array,
    high: Array,
    epistemic: Array,
    aleatoric: Array,
    *,
    xlabel: str = "x",
    ylabel: str = "y",
    columns: int = 2,
    theme: Theme = LIGHT,
) -> Figure:
    """The mean prediction by the value of a feature, and the parts of its standard deviation.

    Args:
        grid: (points,) values of the feature: numbers, datetime64, or texts, which have no order.
        mean: (points,) mean prediction over rows.
        low: (points,) below which a tenth of the rows' predictions lies.
        high: (points,) above which a tenth of them lies.
        epistemic: (points,) standard deviation that more data would take away.
        aleatoric: (points,) standard deviation that no data takes away.
        xlabel: Name of the feature.
        ylabel: Name of the target.
        columns: Panels side by side.
        theme: Colours.
    """
    place, mean, low, high, epistemic, aleatoric = series(
        "dependence_plot", grid=_places(grid), mean=mean, low=low, high=high, epistemic=epistemic, aleatoric=aleatoric
    )
    ours = theme.series[0]
    with panels(2, columns, theme) as (figure, (left, right)):
        if _has_order(grid):
            left.fill_between(place, low, high, color=ours, alpha=0.17, linewidth=0)
        else:
            left.vlines(place, low, high, color=ours, alpha=0.3, linewidth=7)
        _draw(left, grid, mean, ours)
        left.set(title="Prediction", ylabel=plain(ylabel))
        parts = _draw_parts(right, grid, epistemic, aleatoric, theme)
        for ax in (left, right):
            _label(ax, grid, xlabel, columns)
        rows = Patch(color=ours, alpha=0.17, linewidth=0, label="80% of the rows")
        legend(figure, theme, [line(ours, "mean over rows"), rows, *parts], columns)
    return figure


def class_dependence_plot(
    grid: Array,
    probabilities: Array,
    epistemic: Array,
    aleatoric: Array,
    *,
    classes: Sequence[object],
    xlabel: str = "x",
    columns: int = 2,
    theme: Theme = LIGHT,
) -> Figure:
    """The mean probability of each class by the value of a feature, and the parts of its standard deviation.

    Args:
        grid: As for `dependence_plot`.
        probabilities: (points, classes) mean over rows.
        epistemic: (points,) standard deviation that more data would take away.
        aleatoric: (points,) standard deviation that no data takes away.
        classes: Names, of at most five classes.
        xlabel: Name of the feature.
        columns: Panels side by side.
        theme: Colours.
    """
    _, epistemic, aleatoric, *each = series(
        "class_dependence_plot",
        grid=_places(grid),
        epistemic=epistemic,
        aleatoric=aleatoric,
        **{f"probabilities of {name}": p for name, p in zip(classes, np.transpose(probabilities), strict=True)},
    )
    colours = theme.series[0], *theme.series[3:]  # the others are those of the parts
    with panels(2, columns, theme) as (figure, (left, right)):
        for values, colour in zip(each, colours, strict=False):
            _draw(left, grid, values, colour)
        left.set(title="Probability of each class", ylabel="mean over rows", ylim=(0, 1))
        percent(left.yaxis)
        parts = _draw_parts(right, grid, epistemic, aleatoric, theme)
        for ax in (left, right):
            _label(ax, grid, xlabel, columns)
        of_classes = [line(colour, plain(name, 18)) for name, colour in zip(classes, colours, strict=False)]
        legend(figure, theme, [*of_classes, *parts], columns)
    return figure


def _draw(ax: Axes, grid: Array, values: Array, colour: str) -> None:
    """A curve, or points where the values of the feature have no order."""
    if _has_order(grid):
        ax.plot(_places(grid), values, color=colour, linewidth=2)
    else:
        ax.plot(_places(grid), values, "o", color=colour, markersize=6)


def _draw_parts(ax: Axes, grid: Array, epistemic: Array, aleatoric: Array, theme: Theme) -> list[Artist]:
    """Three curves; the entries of the legend."""
    total = np.hypot(epistemic, aleatoric)
    found: list[Artist] = []
    for values, colour, name in (
        (total, theme.ink, "total std"),
        (aleatoric, theme.series[1], "noise (aleatoric)"),
        (epistemic, theme.series[2], "model (epistemic)"),
    ):
        _draw(ax, grid, values, colour)
        found.append(line(colour, name))
    ax.set(title="Its uncertainty", ylabel="standard deviation", ylim=(0, 1.08 * float(total.max()) or 1.0))
    return found


def _label(ax: Axes, grid: Array, xlabel: str, columns: int) -> None:
    """The axis of the feature."""
    grid, place = np.asarray(grid), _places(grid)
    ax.set_xlabel(plain(xlabel))
    if not _has_order(grid):
        names = [plain(name, 12) for name in grid]
        crowded = sum(map(len, names)) > 44
        ax.set_xticks(place, names, rotation=30 if crowded else 0, ha="right" if crowded else "center")
        ax.set_xlim(-0.5, len(place) - 0.5)
        return
    ax.set_xlim(ends(place, margin=0.01))
    if grid.dtype.kind == "M":
        ax.xaxis.set_major_locator(locator := AutoDateLocator(minticks=3, maxticks=7))
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _has_order(grid: Array) -> bool:
    return np.asarray(grid).dtype.kind not in "UO"


def _places(grid: Array) -> Array:
    """Where the values stand on the axis: numbers, days since 1970, or 0, 1, … for texts."""
    grid = np.asarray(grid)
    if grid.dtype.kind == "M":
        return (grid - np.datetime64(0, "D")) / np.timedelta64(1, "D")
    return np.asarray(grid, np.float64) if _has_order(grid) else np.arange(grid.size, dtype=np.float64)
