"""Kernels for a CPU: one autograd function for each map, and training steps of small and of wide chains."""

from torchnpn.kernels.cpu import linear, losses, relu, tied
from torchnpn.kernels.cpu.chain import Array, Layer, NumpyChain, Rows
from torchnpn.kernels.cpu.linear import gaussian_linear
from torchnpn.kernels.cpu.losses import ClosedForm, LossGradient
from torchnpn.kernels.cpu.wide import WideChain

__all__ = [
    "Array",
    "ClosedForm",
    "Layer",
    "LossGradient",
    "NumpyChain",
    "Rows",
    "WideChain",
    "gaussian_linear",
    "linear",
    "losses",
    "relu",
    "tied",
]
