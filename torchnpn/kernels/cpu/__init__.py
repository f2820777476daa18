"""Kernels for a CPU: one autograd function for each map, and numpy for training small chains."""

from torchnpn.kernels.cpu import linear, losses, relu, tied
from torchnpn.kernels.cpu.chain import Array, Layer, NumpyChain, Rows
from torchnpn.kernels.cpu.linear import gaussian_linear
from torchnpn.kernels.cpu.losses import ClosedForm, LossGradient

__all__ = [
    "Array",
    "ClosedForm",
    "Layer",
    "LossGradient",
    "NumpyChain",
    "Rows",
    "gaussian_linear",
    "linear",
    "losses",
    "relu",
    "tied",
]
