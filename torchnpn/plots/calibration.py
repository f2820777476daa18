"""Whether stated probabilities are the observed shares, with what chance alone would show."""

from __future__ import annotations

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from scipy import stats

from torchnpn._text import counted
from torchnpn.plots.axes import percent, series
from torchnpn.plots.style import LIGHT, Array, Theme, dashed, legend, line, panel, panels

_CHANCE = 0.9  # of the bands
_CHANCE_ALPHA = 0.16


def reliability_diagram(
    confidence: Array, accuracy: Array, rows: Array, *, columns: int = 2, theme: Theme = LIGHT
) -> Figure:
    """Accuracy by confidence, with 90% intervals, and how many rows there are of each confidence.

    Args:
        confidence: (bins,) mean confidence of equally wide bins from 0 to 1, as of `metrics.reliability`; any value
            where a bin is empty.
        accuracy: (bins,) share of right answers.
        rows: (bins,) how many rows.
    """
    (count,) = series("reliability_diagram", rows=rows)
    full = count > 0
    if not full.any():
        raise ValueError("reliability_diagram expects at least one row, got rows that are all 0.")
    sure, right = series("reliability_diagram", confidence=confidence[full], accuracy=accuracy[full])
    error, ours = float(np.average(np.abs(right - sure), weights=count[full])), theme.series[0]
    low, high = _share_interval(np.round(right * count[full]), count[full])
    edges = np.linspace(0, 1, count.size + 1)
    start = edges[np.argmax(full)]
    with panels(2, columns, theme) as (figure, (left, below)):
        left.plot([0, 1], [0, 1], **theme.dashes)
        left.vlines(sure, low, high, color=ours, linewidth=1.6, alpha=0.5)
        left.plot(sure, right, "o-", color=ours, linewidth=2, markersize=5, clip_on=False)
        left.set(title=f"Calibration error {error:.1%}", ylabel="accuracy", ylim=(0, 1))
        below.stairs(count / count.sum(), edges, fill=True, color=ours, alpha=0.55, linewidth=0)
        below.set(title=f"{counted(int(count.sum()))} by confidence", ylabel="share of rows", ylim=(0, None))
        for ax in (left, below):
            ax.set(xlabel="confidence", xlim=(start, 1))
            percent(ax.xaxis, ax.yaxis)
        handles = [line(ours, "accuracy with 90% interval"), dashed(theme, "calibrated")]
        legend(figure, theme, handles, columns)
    return figure


def calibration_plot(pit: Array, *, columns: int = 2, theme: Theme = LIGHT) -> Figure:
    """Share of targets below each predicted quantile, and the histogram of PIT values, with 90% bands of chance.

    Args:
        pit: (rows,) predicted distribution functions at the targets, F(y); uniform for a calibrated model.
    """
    u = np.sort(_levels("calibration_plot", pit))
    expected = np.linspace(0, 1, 201)
    low, high = stats.binom.interval(_CHANCE, u.size, expected)
    with panels(2, columns, theme) as (figure, (left, right)):
        low, high = np.maximum(low, 0) / u.size, high / u.size  # for level 0 scipy starts at -1
        left.fill_between(expected, low, high, color=theme.muted, alpha=_CHANCE_ALPHA, linewidth=0)
        left.plot([0, 1], [0, 1], **theme.dashes)
        observed = np.searchsorted(u, expected, side="right") / u.size
        left.plot(expected, observed, color=theme.series[0], linewidth=2)
        left.set(title="Targets below the quantiles", xlabel="level of the quantile", ylabel="share of targets below")
        left.set(xlim=(0, 1), ylim=(0, 1))
        percent(left.xaxis, left.yaxis)
        _draw_pit(right, u, theme)
        legend(figure, theme, _handles(theme), columns)
    return figure


def pit_histogram(pit: Array, *, columns: int = 1, theme: Theme = LIGHT) -> Figure:
    """Histogram of PIT values: flat if the model is calibrated.

    It is higher at both ends if intervals are too narrow, and higher in the middle if they are too wide.

    Args:
        pit: (rows,) predicted distribution functions at the targets, F(y).
    """
    u = _levels("pit_histogram", pit)
    with panel(columns, theme) as (figure, ax):
        _draw_pit(ax, u, theme)
        legend(figure, theme, _handles(theme), columns)
    return figure


def _draw_pit(ax: Axes, u: Array, theme: Theme) -> None:
    """Five to twenty bars, of about ten rows where there are enough, in front of the band of chance."""
    bins = int(np.clip(u.size // 10, 5, 20))
    low, high = stats.binom.interval(_CHANCE, u.size, 1 / bins)
    share = np.histogram(u, bins, range=(0, 1))[0] / u.size
    ax.axhspan(low / u.size, high / u.size, color=theme.muted, alpha=_CHANCE_ALPHA, linewidth=0, zorder=0.5)
    ax.stairs(share, np.linspace(0, 1, bins + 1), fill=True, color=theme.series[0], alpha=0.55, linewidth=0)
    ax.axhline(1 / bins, **theme.dashes)
    ax.set(title="PIT histogram", xlabel="level of the target, F(y)", ylabel="share of targets")
    ax.set(xlim=(0, 1), ylim=(0, None))
    percent(ax.xaxis, ax.yaxis)


def _handles(theme: Theme) -> list[Artist]:
    chance = Patch(color=theme.muted, alpha=0.3, linewidth=0, label="90% by chance")
    return [line(theme.series[0], "observed"), dashed(theme, "calibrated"), chance]


def _levels(plot: str, pit: Array) -> Array:
    (u,) = series(plot, pit=pit)
    if u.min() < 0 or u.max() > 1:
        raise ValueError(f"{plot} expects pit from 0 to 1, got values from {u.min():g} to {u.max():g}.")
    return u


def _share_interval(hits: Array, count: Array) -> tuple[Array, Array]:
    """Clopper and Pearson's interval of a share: beta quantiles, with exact ends at no hit and at all hits."""
    tail = (1 - _CHANCE) / 2
    low = np.where(hits > 0, stats.beta.ppf(tail, np.maximum(hits, 1), count - hits + 1), 0.0)
    high = np.where(hits < count, stats.beta.isf(tail, hits + 1, np.maximum(count - hits, 1)), 1.0)
    return low, high
