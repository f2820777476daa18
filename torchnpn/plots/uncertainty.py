"""Where a model is uncertain: beside its errors, and on data unlike its training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from sklearn.metrics import roc_auc_score

from torchnpn._text import counted
from torchnpn.plots.axes import fit_scale, percent, series
from torchnpn.plots.style import LIGHT, Array, Theme, legend, panel, panels, plain

_MARKERS = "os^Dv"
_LINES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")


class Groups(Protocol):
    """Accuracy of groups of rows, from the most certain to the least, e.g. `metrics.accuracy_by_uncertainty`'s."""

    @property
    def accuracy(self) -> Array: ...
    @property
    def error(self) -> Array: ...  # standard errors


class Kept(Protocol):
    """Error rates among the predictions kept, e.g. `metrics.risk_coverage`'s."""

    @property
    def coverage(self) -> Array: ...  # shares of predictions kept
    @property
    def risk(self) -> Array: ...  # error rates among them


class UncertaintyCurves(NamedTuple):
    """How a classifier's errors lie along its uncertainty."""

    name: str
    accuracy: Array  # of groups, from the most certain to the least
    error: Array  # standard errors of these
    coverage: Array  # shares of predictions kept
    risk: Array  # error rates among them


def uncertainty_curves(models: Sequence[UncertaintyCurves], *, columns: int = 2, theme: Theme = LIGHT) -> Figure:
    """Accuracy by rising uncertainty, and the error rate among the predictions kept, for each model, ours first."""
    with panels(2, columns, theme) as (figure, (left, right)):
        _draw_groups(left, models, theme)
        _draw_kept(right, models, theme)
        left.set_xlabel("group of test digits, certain → uncertain")
        right.set_xlabel("share of digits answered, most certain first")
        legend(figure, theme, _models([model.name for model in models], theme), columns)
    return figure


def accuracy_by_uncertainty_plot(models: Mapping[str, Groups], *, columns: int = 1, theme: Theme = LIGHT) -> Figure:
    """Accuracy of groups of rows by rising uncertainty, with standard errors.

    Args:
        models: By name, ours first, e.g. `{"NPN": metrics.accuracy_by_uncertainty(correct, uncertainty)}`.
    """
    with panel(columns, theme) as (figure, ax):
        _draw_groups(ax, list(models.values()), theme)
        legend(figure, theme, _models(models, theme), columns)
    return figure


def risk_coverage_plot(models: Mapping[str, Kept], *, columns: int = 1, theme: Theme = LIGHT) -> Figure:
    """Error rate among the predictions kept, for every share of them.

    Args:
        models: By name, ours first, e.g. `{"NPN": metrics.risk_coverage(correct, uncertainty)}`.
    """
    with panel(columns, theme) as (figure, ax):
        _draw_kept(ax, list(models.values()), theme)
        legend(figure, theme, _models(models, theme), columns)
    return figure


def ood_histogram(inside: Array, outside: Array, *, columns: int = 1, theme: Theme = LIGHT) -> Figure:
    """Uncertainties of rows like the training data and of rows unlike it.

    The title says how often a row from outside is the more uncertain one of a pair (AUROC).

    Args:
        inside: (rows,) uncertainties of data like the training data.
        outside: (other rows,) uncertainties of data unlike it.
    """
    (near,), (far,) = series("ood_histogram", inside=inside), series("ood_histogram", outside=outside)
    both = np.concatenate([near, far])
    auroc = roc_auc_score(np.repeat([0, 1], [near.size, far.size]), both)
    with panel(columns, theme) as (figure, ax):
        limits, handles = fit_scale(ax, "x", both), []
        axis = ax.xaxis.get_transform()  # bins of equal width on the axis
        start, end = axis.transform(np.array(limits))
        count = int(np.clip(min(near.size, far.size) // 5, 8, 40))  # bars of a row or two would be a comb
        bins = axis.inverted().transform(np.linspace(start, end, count + 1))
        for name, rows, colour in zip(("inside", "outside"), (near, far), theme.series, strict=False):
            share = np.histogram(rows, bins)[0] / rows.size
            ax.stairs(share, bins, fill=True, color=colour, alpha=0.35, linewidth=0)
            ax.stairs(share, bins, color=colour, linewidth=1.4)
            handles.append(Patch(color=colour, alpha=0.6, linewidth=0, label=f"{name}, {counted(rows.size)}"))
        ax.set(title=f"Uncertainty: AUROC {auroc:.3f}", ylabel="share of rows", ylim=(0, None))
        ax.set_xlabel("uncertainty")
        percent(ax.yaxis)
        legend(figure, theme, handles, columns)
    return figure


def _draw_groups(ax: Axes, models: Sequence[Groups], theme: Theme) -> None:
    """Points with their standard errors; models stand side by side within a group."""
    apart = min(0.14, 0.7 / len(models))
    for i, model in enumerate(models):
        colour, marker, _ = _look(i, theme)
        accuracy, error = series("accuracy_by_uncertainty_plot", accuracy=model.accuracy, error=model.error)
        group = np.arange(1, len(accuracy) + 1) + apart * (i - (len(models) - 1) / 2)
        low, high = np.maximum(accuracy - error, 0.0), np.minimum(accuracy + error, 1.0)
        ax.vlines(group, low, high, color=colour, linewidth=1.2, alpha=0.6)
        ax.plot(group, accuracy, marker, color=colour, markersize=5, clip_on=False)
    groups = max(len(model.accuracy) for model in models)
    ax.set(title="Accuracy by uncertainty", xlabel="group of rows, certain → uncertain", ylabel="accuracy")
    if groups <= 12:
        ax.set_xticks(range(1, groups + 1))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    bottom, top = ax.get_ylim()
    ax.set_ylim(max(bottom, 0.0), min(top, 1.0))  # the margins around the points are no shares
    percent(ax.yaxis)


def _draw_kept(ax: Axes, models: Sequence[Kept], theme: Theme) -> None:
    """A line for each model; a single row is a point."""
    for i, model in enumerate(models):
        colour, marker, line = _look(i, theme)
        coverage, risk = series("risk_coverage_plot", coverage=model.coverage, risk=model.risk)
        ax.plot(coverage, risk, marker if risk.size == 1 else line, color=colour, linewidth=2, clip_on=risk.size > 1)
    ax.set(title="Error among the answers kept", ylabel="error rate", xlim=(0, 1), ylim=(0, None))
    ax.set_xlabel("share of rows answered, most certain first")
    percent(ax.xaxis, ax.yaxis)


def _models(names: Sequence[str] | Mapping[str, object], theme: Theme) -> list[Line2D]:
    """The legend's entries."""
    handles = []
    for i, name in enumerate(names):
        colour, marker, line = _look(i, theme)
        entry = Line2D([], [], color=colour, marker=marker, linestyle=line, markersize=5, linewidth=2)
        entry.set_label(plain(name))
        handles.append(entry)
    return handles


def _look(i: int, theme: Theme) -> tuple[str, str, Literal["-", "--", ":", "-."]]:
    """Colour, marker and line of the i-th model; no two of the first 28 are alike."""
    colours = len(theme.series)
    return theme.series[i % colours], _MARKERS[i % len(_MARKERS)], _LINES[i // colours % len(_LINES)]
