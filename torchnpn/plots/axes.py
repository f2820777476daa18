"""What figures take and how their axes show it: checked arrays, limits, logarithms, percents."""

from __future__ import annotations

from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, NullLocator, SymmetricalLogLocator

from torchnpn.plots.style import Array

_WIDE = 100.0  # 99% / 1% quantile from which a linear axis shows small values as zero
_LOPSIDED = 10.0, 3.0  # the same quotient, and how much further the large one is from the middle than the small one
_SKEWED = 50.0  # largest / middle value from which it crowds most values at one end


def series(plot: str, **arguments: Array) -> list[Array]:
    """The arguments as float64 arrays of one length, with at least one row and finite values only."""
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in arguments.items()}
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) != 1 or any(len(shape) != 1 or shape[0] == 0 for shape in shapes):
        came = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"{plot} expects arrays of one shape (rows,) with at least one row, got {came}.")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{plot} expects finite numbers, got {array[~np.isfinite(array)][0]} in {name}.")
    return list(arrays.values())


def ends(*values: Array, margin: float = 0.05) -> tuple[float, float]:
    """Limits of a linear axis with room at both ends, also where all values are one."""
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    room = margin * (high - low)
    if room <= 1e-9 * max(abs(low), abs(high)):
        room = 0.1 * abs(low) or 1.0
    return low - room, high + room


def is_wide(values: Array) -> bool:
    """Whether positive values span so much, or so much more at the upper end, that they ask for a logarithmic axis."""
    small, middle, large = np.quantile(values, [0.01, 0.5, 0.99])
    span, tail = _LOPSIDED
    is_lopsided = large > span * small and large - middle > tail * (middle - small)
    return bool(values.min() > 0 and (large > _WIDE * small or is_lopsided))


def is_skewed(values: Array) -> bool:
    """Whether most of the values, none negative, lie near zero and a few far away."""
    positive = values[values > 0]
    return bool(values.min() >= 0 and positive.size and positive.max() > _SKEWED * np.median(positive))


def fit_scale(ax: Axes, side: Literal["x", "y"], values: Array) -> tuple[float, float]:
    """Scale one axis to the values: linear, logarithmic, or linear near zero and logarithmic above it.

    Returns:
        The limits of the axis.
    """
    low, high = ends(values)
    if is_wide(values):
        low, high = values.min() / 1.2, values.max() * 1.2
        ax.set(**{f"{side}scale": "log"})
        subs = (1.0,) if high > 1e3 * low else (1.0, 3.0)
        _log_ticks(ax, side, LogLocator(subs=subs))
    elif is_skewed(values):
        tick = 10.0 ** np.floor(np.log10(np.median(values[values > 0])))  # linear up to this one
        low, high = -0.3 * tick, values.max() * 1.2
        {"x": ax.set_xscale, "y": ax.set_yscale}[side]("symlog", linthresh=tick)
        _log_ticks(ax, side, SymmetricalLogLocator(base=10, linthresh=tick))
    ax.set(**{f"{side}lim": (low, high)})
    return low, high


def _log_ticks(ax: Axes, side: Literal["x", "y"], locator: Locator) -> None:
    """Ticks where the locator says, as plain numbers, and no others."""
    axis = {"x": ax.xaxis, "y": ax.yaxis}[side]
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def percent(*axes: Axis) -> None:
    """Shares as percents, with as many digits as the ticks need."""
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.4g}%"))
