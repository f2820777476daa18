"""The figures of the experiments on documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from npn_studies.experiments.tables import Summary
from torchnpn.plots import LIGHT, fit_scale, legend, panels

Points = Mapping[str, Any]  # lists "variance" and "error"
_MARKS = (LIGHT.muted, "o"), (LIGHT.series[0], "D")  # of means alone, with variances
_APART = -0.14, 0.14  # rows between the two


def errors_by_variance(sets: Mapping[str, tuple[Points, Points, Sequence[float]]]) -> Figure:
    """A panel for each data set: documents as dots, means of groups as a line, ± the deviation within a group."""
    with panels(len(sets), 2, LIGHT) as (figure, axes):
        for ax, (name, (documents, groups, stds)) in zip(axes, sets.items(), strict=True):
            variance, error = (np.asarray(documents[key], dtype=np.float64) for key in ("variance", "error"))
            fit_scale(ax, "x", variance)
            fit_scale(ax, "y", error)
            ax.plot(variance, error, ".", color=LIGHT.muted, markersize=2, alpha=0.5)
            ax.errorbar(
                groups["variance"], groups["error"], stds, color=LIGHT.series[0], linewidth=2, marker="o", capsize=3
            )
            ax.set(title=name, xlabel="estimated variance of a document", ylabel="reconstruction error")
        handles = [
            Line2D([], [], color=LIGHT.muted, marker=".", linestyle="", label="test document"),
            Line2D(
                [],
                [],
                color=LIGHT.series[0],
                marker="o",
                linewidth=2,
                label="mean of a group, ± its standard deviation",
            ),
        ]
        legend(figure, LIGHT, handles, columns=2)
    return figure


def ranks(sets: Mapping[str, Mapping[str, tuple[Summary, Summary | None]]]) -> Figure:
    """A panel for each data set: the link rank of every method, of means alone and with variances."""
    with panels(len(sets), 2, LIGHT) as (figure, axes):
        for ax, (name, methods) in zip(axes, sets.items(), strict=True):
            for number, (colour, marker) in enumerate(_MARKS):
                shown = [
                    (place if None in pair else place + _APART[number], *summary)
                    for place, pair in enumerate(methods.values())
                    if (summary := pair[number]) is not None
                ]
                at, mean, error = np.reshape(shown, (-1, 3)).T
                ax.errorbar(mean, at, xerr=error, color=colour, marker=marker, markersize=3.5, linestyle="", capsize=2)
            ax.set_yticks(range(len(methods)), list(methods))
            ax.set(title=name, xlabel="link rank, less is better", ylim=(len(methods) - 0.5, -0.5))
        handles = [
            Line2D([], [], color=colour, marker=marker, linestyle="", markersize=5, label=label)
            for (colour, marker), label in zip(_MARKS, ("means alone", "with variance"), strict=True)
        ]
        legend(figure, LIGHT, handles, columns=2)
    return figure
