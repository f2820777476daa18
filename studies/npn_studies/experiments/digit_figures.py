"""Figures of the MNIST experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import LogLocator

from npn_studies.experiments.digit_scores import COVERAGE
from npn_studies.experiments.tables import Summary
from torchnpn.plots import DASHED, LIGHT, dashed, legend, line, panels, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from npn_studies.experiments.mnist_variance_page import Row

_COLOURS = LIGHT.series


def by_size(
    sizes: Sequence[int], measured: Mapping[str, Mapping[str, Sequence[Summary]]], paper: Mapping[str, Sequence[float]]
) -> Figure:
    """Error and NLL against the number of training images, on logarithmic axes.

    Args:
        sizes: Numbers of images.
        measured: By method, the "error" in percent and the "nll" at each size.
        paper: By method, the errors that the paper printed, where it did.
    """
    with panels(2, 2, LIGHT) as (figure, axes):
        for ax, key, title in zip(axes, ("error", "nll"), ("Test error, %", "Test NLL"), strict=True):
            for number, (colour, (name, found)) in enumerate(zip(_COLOURS, measured.items(), strict=False)):
                mean, error = np.transpose(found[key])
                width = 1.5 if number else 5  # a line that lies on the first is seen in it
                ax.errorbar(sizes, mean, error, color=colour, linewidth=width, marker="o", markersize=3 + width)
                if key == "error" and name in paper:
                    ax.plot(sizes, paper[name], color=colour, linewidth=1.2, linestyle=DASHED)
            ax.set(title=title, xlabel="training images", xscale="log", yscale="log")
            ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
            ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            ax.yaxis.set_major_formatter("{x:g}")
            ax.minorticks_off()
        lines = [line(colour, name) for colour, name in zip(_COLOURS, measured, strict=False)]
        legend(figure, LIGHT, [*lines, dashed(LIGHT, "as printed in the paper")], columns=2)
    return figure


def doubt(shown: Sequence[Row], every: Sequence[Row], kinds: Mapping[str, str]) -> Figure:
    """Accuracy by group and risk-coverage of some methods and scores, and the AUROC of all."""
    with panels(3, 3, LIGHT) as (figure, (groups, kept, bars)):
        for i, (colour, row) in enumerate(zip(_COLOURS[: len(shown)], shown, strict=True)):
            place = np.arange(1, len(row.accuracy) + 1) + 0.12 * (i - (len(shown) - 1) / 2)
            error = np.mean(row.figures["accuracy_error"], axis=0)
            groups.errorbar(place, row.accuracy, error, color=colour, linestyle="", marker="o", markersize=4)
            kept.plot(COVERAGE, row.figures["risk"], color=colour, linewidth=2)
        groups.set(title="Accuracy by uncertainty", xlabel="group of test digits, certain → uncertain")
        groups.set_xticks(range(1, len(shown[0].accuracy) + 1))
        kept.set(title="Error among the answers kept", xlabel="share answered, most certain first", xlim=(0.5, 1))
        kept.set_ylim(bottom=0)
        for axis in (groups.yaxis, kept.yaxis, kept.xaxis):
            percent(axis)
        _draw_aurocs(bars, every, kinds)
        legend(
            figure, LIGHT, [line(colour, row.label) for colour, row in zip(_COLOURS, shown, strict=False)], columns=3
        )
    return figure


def _draw_aurocs(ax: Axes, every: Sequence[Row], kinds: Mapping[str, str]) -> None:
    """A dot for each kind; a bar would need an end, and chance is at a half."""
    place = np.arange(len(every))
    for colour, (kind, name) in zip((LIGHT.ink, LIGHT.muted), kinds.items(), strict=True):
        mean, error = np.transpose([row.auroc(kind) for row in every])
        marker = "o" if colour == LIGHT.ink else "D"
        ax.errorbar(mean, place, xerr=error, color=colour, linestyle="", marker=marker, markersize=4, label=name)
    ax.set_yticks(place, [row.label for row in every], fontsize=7)
    ax.set(title="AUROC, no digit or digit", ylim=(len(every) - 0.5, -0.5))
    ax.legend(loc="best", labelcolor=LIGHT.ink, fontsize=7)
