"""How good predictions are, and how well they know it; arrays in, numbers out."""

from torchnpn.metrics.calibration import (
    CalibrationCurve,
    Reliability,
    calibration_curve,
    calibration_error,
    pit_for_counts,
    regression_calibration_error,
    reliability,
)
from torchnpn.metrics.concordance import concordance
from torchnpn.metrics.crps import crps_gaussian, crps_mixture_gaussian
from torchnpn.metrics.errors import brier_score, categorical_nll, gaussian_nll, rmse
from torchnpn.metrics.intervals import (
    CoverageByGroup,
    coverage_by_group,
    interval_coverage,
    interval_score,
    interval_width,
    pinball,
)
from torchnpn.metrics.scoring import Scorer, scorers
from torchnpn.metrics.uncertainty import (
    AccuracyByUncertainty,
    RiskCoverage,
    accuracy_by_uncertainty,
    ood_auroc,
    risk_coverage,
)

__all__ = [
    "AccuracyByUncertainty",
    "CalibrationCurve",
    "CoverageByGroup",
    "Reliability",
    "RiskCoverage",
    "Scorer",
    "accuracy_by_uncertainty",
    "brier_score",
    "calibration_curve",
    "calibration_error",
    "categorical_nll",
    "concordance",
    "coverage_by_group",
    "crps_gaussian",
    "crps_mixture_gaussian",
    "gaussian_nll",
    "interval_coverage",
    "interval_score",
    "interval_width",
    "ood_auroc",
    "pinball",
    "pit_for_counts",
    "regression_calibration_error",
    "reliability",
    "risk_coverage",
    "rmse",
    "scorers",
]

# For other packages of torchnpn:
from torchnpn.metrics.checks import saturated as saturated
from torchnpn.metrics.crps import normal_crps as normal_crps
from torchnpn.metrics.crps import normal_mixture_crps as normal_mixture_crps
