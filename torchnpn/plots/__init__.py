"""Figures in one style; each function takes arrays and returns a matplotlib `Figure`, and touches no global state.

With `columns` a figure has so many panels or images side by side; one of a single panel is as wide as so many. `theme`
has the colours.
"""

from torchnpn.plots.bands import Band, Interval, count_intervals, predictive_bands, regression_bands
from torchnpn.plots.bars import bars
from torchnpn.plots.calibration import calibration_plot, pit_histogram, reliability_diagram
from torchnpn.plots.dependence import class_dependence_plot, dependence_plot
from torchnpn.plots.predictions import (
    Guess,
    confusion_matrix_plot,
    guesses,
    prediction_intervals,
    residual_histogram,
)
from torchnpn.plots.style import DARK, LIGHT, Theme, png
from torchnpn.plots.uncertainty import (
    UncertaintyCurves,
    accuracy_by_uncertainty_plot,
    ood_histogram,
    risk_coverage_plot,
    uncertainty_curves,
)

__all__ = [
    "DARK",
    "LIGHT",
    "Band",
    "Guess",
    "Interval",
    "Theme",
    "UncertaintyCurves",
    "accuracy_by_uncertainty_plot",
    "bars",
    "calibration_plot",
    "class_dependence_plot",
    "confusion_matrix_plot",
    "count_intervals",
    "dependence_plot",
    "guesses",
    "ood_histogram",
    "pit_histogram",
    "png",
    "prediction_intervals",
    "predictive_bands",
    "regression_bands",
    "reliability_diagram",
    "residual_histogram",
    "risk_coverage_plot",
    "uncertainty_curves",
]

# For other packages of torchnpn:
from torchnpn.plots.axes import fit_scale as fit_scale
from torchnpn.plots.axes import percent as percent
from torchnpn.plots.style import DASHED as DASHED
from torchnpn.plots.style import dashed as dashed
from torchnpn.plots.style import legend as legend
from torchnpn.plots.style import line as line
from torchnpn.plots.style import panels as panels
