"""Named numbers as bars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from torchnpn.plots.axes import series
from torchnpn.plots.style import LEGEND_HEIGHT, LIGHT, PANEL, Array, Theme, panels, plain

_BAR = 0.27  # inches


def bars(
    names: Sequence[object],
    values: Array,
    errors: Array | None = None,
    *,
    title: str = "",
    xlabel: str = "",
    columns: int = 1,
    theme: Theme = LIGHT,
) -> Figure:
    """Horizontal bars from top to bottom in the order given, e.g. of permutation importances.

    Args:
        names: Of the bars.
        values: (bars,) their lengths, negative ones too.
        errors: (bars,) standard errors, drawn as lines.
        title: Of the figure.
        xlabel: What the values are.
    """
    spread = np.zeros(len(names)) if errors is None else errors
    length, error, _ = series("bars", values=values, errors=spread, names=np.zeros(len(names)))
    place = np.arange(length.size)
    size = PANEL[0] * columns, 0.9 - LEGEND_HEIGHT + _BAR * (length.size + 1)
    with panels(1, 1, theme, size) as (figure, (ax,)):
        ax.grid(visible=False, axis="y")
        ax.barh(place, length, height=0.66, color=theme.series[0], alpha=0.8, linewidth=0)
        if errors is not None:
            ax.hlines(place, length - error, length + error, color=theme.ink, linewidth=1.2, alpha=0.8)
        ax.axvline(0, color=theme.muted, linewidth=0.8)
        longest = 24 if columns == 1 else 40
        ax.set_yticks(place, [plain(name, longest) for name in names], color=theme.ink)
        ax.set(title=plain(title, 40 * columns), xlabel=xlabel, ylim=(length.size - 0.4, -0.6))
        ax.spines["left"].set_visible(False)
        ax.locator_params(axis="x", nbins=4 * columns + 1)
    return figure
