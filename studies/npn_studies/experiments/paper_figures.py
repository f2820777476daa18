"""The figures of `paper` and `active`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from npn_studies.experiments.paper_digits import FEWEST
from torchnpn.plots import LIGHT, legend, line, panels

Array = NDArray[Any]
_APART = 0.006  # of a panel's width, between the bars of two rules at the same place


def learning_curves(sets: Mapping[str, tuple[Sequence[int], Mapping[str, Array]]]) -> Figure:
    """A panel for each task: the error against the number of labelled rows, with standard errors over seeds.

    Args:
        sets: By title, the numbers of labelled rows and, by rule, errors (seeds, rounds).
    """
    rules = list(dict.fromkeys(rule for _, found in sets.values() for rule in found))
    colours = dict(zip(rules, (LIGHT.muted, *LIGHT.series), strict=False))
    with panels(len(sets), 3, LIGHT) as (figure, axes):
        for ax, (title, (numbers, found)) in zip(axes, sets.items(), strict=True):
            width = numbers[-1] - numbers[0]
            for k, (rule, errors) in enumerate(found.items()):
                places = np.asarray(numbers) + _APART * width * (k - 1.5)
                spread = errors.std(0, ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else None
                ax.errorbar(
                    places, errors.mean(0), spread, color=colours[rule], linewidth=1.5, marker="o", markersize=3
                )
            ax.set(title=title, xlabel="labelled rows", yscale="log")
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_formatter("{x:g}")
            ax.tick_params(axis="y", which="minor", labelsize=7)
        legend(figure, LIGHT, [line(colours[rule], rule) for rule in rules], columns=2)
    return figure


def bands_and_bins(record: Mapping[str, Any]) -> Figure:
    """The toy curve to the letter, a panel for each weight of the KL; and accuracy by the paper's bins of the variance.

    The last is of the network without a KL that has the most images; with it there is nothing left to sort.
    """
    curves = {name: record["cells"].get(f"toy/{name}") for name in TOY_TITLES}
    shown = {name: cell["figures"]["curve"] for name, cell in curves.items() if cell}
    digits = [key for key in record["cells"] if key.startswith("mnist/") and key.endswith("/none")]
    best = max(digits, key=lambda key: int(key.split("/")[1]), default=None)
    with panels(len(shown) + (best is not None), 2, LIGHT) as (figure, axes):
        for ax, (name, curve) in zip(axes, shown.items(), strict=False):
            _band(ax, curve, TOY_TITLES[name])
        handles = [line(LIGHT.muted, "y = x³"), line(LIGHT.series[0], "mean, ±3 std")]
        if best is not None:
            _bins(axes[-1], record["cells"][best]["figures"]["bins"], int(best.split("/")[1]))
            handles += [
                line(colour, label) for colour, label in zip(LIGHT.series[1:], BIN_LABELS.values(), strict=False)
            ]
        legend(figure, LIGHT, handles, columns=2)
    return figure


TOY_TITLES = {"full": "the whole KL", "hundredth": "a hundredth of the KL", "none": "no KL"}
BIN_LABELS = {"paper": "accuracy, variance as printed", "certain": "accuracy, at o_s = 0"}


def _band(ax: Any, curve: Mapping[str, Sequence[float]], title: str) -> None:
    x = np.linspace(-6, 6, len(curve["mean"]))
    mean, std = (np.asarray(curve[key]) for key in ("mean", "std"))
    ax.fill_between(x, mean - 3 * std, mean + 3 * std, color=LIGHT.series[0], alpha=0.2, linewidth=0)
    ax.plot(x, mean, color=LIGHT.series[0], linewidth=1.5)
    ax.plot(x, x**3, color=LIGHT.muted, linewidth=1)
    ax.plot(curve["x"], curve["y"], ".", color=LIGHT.ink, markersize=5)
    reach = 250 if std.max() < 1e3 else 3 * std.max()
    ax.set(title=f"Toy curve: {title}", ylim=(-reach, reach), xlabel="x")


def _bins(ax: Any, bins: Mapping[str, Any], images: int) -> None:
    """Accuracy against the bin."""
    for colour, way in zip(LIGHT.series[1:], BIN_LABELS, strict=False):
        each = zip(bins[way]["accuracy"], bins[way]["count"], strict=True)
        accuracy = [value if count >= FEWEST else np.nan for value, count in each]
        ax.plot(range(1, len(accuracy) + 1), accuracy, color=colour, marker="o", markersize=4, linewidth=1.5)
    ax.set_xticks(range(1, 11))
    ax.set(title=f"Accuracy, %, {images:,} images, no KL", xlabel="bin of Σ a_s, 0.04 wide (10: beyond)")
