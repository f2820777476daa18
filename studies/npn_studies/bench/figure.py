"""The figure of how time grows."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from npn_studies.bench.scaling import AXES
from torchnpn.plots import DASHED, LIGHT, Theme, legend, line, panels

_LINES = {"plain": 1, "npn": 0}  # the number of its colour
_NAMES = {"plain": "plain", "npn": "NPN"}


def growth(scaling: dict[str, list[dict[str, Any]]], theme: Theme = LIGHT) -> Figure:
    """Time of a step and of a prediction against width, depth and batch, a panel each.

    Args:
        scaling: Of a record.
        theme: Colours.
    """
    with panels(len(scaling), 3, theme) as (figure, axes):
        for ax, (axis, points) in zip(axes, scaling.items(), strict=True):
            for who, colour in _LINES.items():
                for key, style in (("step_us", "-"), ("predict_us", DASHED)):
                    seen = [(point["at"], point[who][key]) for point in points if key in point[who]]
                    ax.plot(
                        *zip(*seen, strict=True) if seen else ([], []),
                        color=theme.series[colour],
                        linestyle=style,
                        marker="o",
                        markersize=3.5,
                    )
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_xticks([point["at"] for point in points], [f"{point['at']:,}" for point in points])
            ax.yaxis.set_major_locator(LogLocator(subs=(1.0,)))
            ax.yaxis.set_major_formatter("{x:,.0f}")
            for side in (ax.xaxis, ax.yaxis):
                side.set_minor_locator(NullLocator())
            ax.set(title=axis.capitalize(), xlabel=AXES[axis], ylabel="time, µs")
        handles = [line(theme.series[colour], f"{_NAMES[who]}, training step") for who, colour in _LINES.items()]
        handles += [
            Line2D(
                [], [], color=theme.series[colour], linewidth=2, linestyle=DASHED, label=f"{_NAMES[who]}, prediction"
            )
            for who, colour in _LINES.items()
        ]
        legend(figure, theme, handles, columns=3)
    return figure
