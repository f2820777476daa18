"""Calibration by held-out rows, with guarantees that hold whatever the model is: conformal prediction."""

from torchnpn.conformal.classes import class_scores, class_sets, softened, temperature
from torchnpn.conformal.held_out import HeldOut
from torchnpn.conformal.numbers import calibrated, levels

__all__ = ["HeldOut", "calibrated", "class_scores", "class_sets", "levels", "softened", "temperature"]

# For other packages of torchnpn:
from torchnpn.conformal.held_out import parts as parts
from torchnpn.conformal.held_out import split as split
