"""The figures of the experiments on documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from torchnpn.plots.axes import fit_scale
from torchnpn.plots.style import LIGHT, legend, panels

Points = Mapping[str, Any]  # lists "variance" and "error"


def errors_by_variance(sets: Mapping[str, tuple[Points, Points]]) -> Figure:
    """A panel for each data set: documents as dots, means of groups as a line."""
    with panels(len(sets), 2, LIGHT) as (figure, axes):
        for ax, (name, (documents, groups)) in zip(axes, sets.items(), strict=True):
            variance, error = (np.asarray(documents[key], dtype=np.float64) for key in ("variance", "error"))
            fit_scale(ax, "x", variance)
            fit_scale(ax, "y", error)
            ax.plot(variance, error, ".", color=LIGHT.muted, markersize=2, alpha=0.5)
            ax.plot(groups["variance"], groups["error"], color=LIGHT.series[0], linewidth=2, marker="o", markersize=4)
            ax.set(title=name, xlabel="estimated variance of a document", ylabel="reconstruction error")
        handles = [
            Line2D([], [], color=LIGHT.muted, marker=".", linestyle="", label="test document"),
            Line2D([], [], color=LIGHT.series[0], marker="o", linewidth=2, label="mean of a group"),
        ]
        legend(figure, LIGHT, handles, columns=2)
    return figure
