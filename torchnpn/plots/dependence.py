"""A prediction and its uncertainty along one feature, as of `inspection.partial_dependence`."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from torchnpn.plots.axes import ends, series
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
        grid: (points,) values of the feature.
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
    grid, mean, low, high, epistemic, aleatoric = series(
        "dependence_plot", grid=grid, mean=mean, low=low, high=high, epistemic=epistemic, aleatoric=aleatoric
    )
    ours, total = theme.series[0], np.hypot(epistemic, aleatoric)
    with panels(2, columns, theme) as (figure, (left, right)):
        left.fill_between(grid, low, high, color=ours, alpha=0.17, linewidth=0)
        left.plot(grid, mean, color=ours, linewidth=2)
        left.set(title="Prediction", ylabel=plain(ylabel))
        for values, colour in ((total, theme.ink), (aleatoric, theme.series[1]), (epistemic, theme.series[2])):
            right.plot(grid, values, color=colour, linewidth=2)
        right.set(title="Its uncertainty", ylabel="standard deviation", ylim=(0, 1.08 * float(total.max()) or 1.0))
        for ax in (left, right):
            ax.set(xlabel=plain(xlabel), xlim=ends(grid, margin=0.01))
        handles = [
            line(ours, "mean over rows"),
            Patch(color=ours, alpha=0.17, linewidth=0, label="80% of the rows"),
            line(theme.ink, "total"),
            line(theme.series[1], "aleatoric"),
            line(theme.series[2], "epistemic"),
        ]
        legend(figure, theme, handles, columns)
    return figure
