"""Fused kernels in Triton, for CUDA devices; imported only where one is used, because Triton is not always there.

`activations` has the moments of each activation and their derivatives, `epilogues` what they end, `products` the three
matrix kernels, `elementwise` and `update` those without products; `signals` what they take, `layer` a layer's passes
made of them, `learning` its step of Adam; `linear` is what autograd calls, `step` the rest of a training step.
"""

from torchnpn.kernels.triton.layer import (
    activation_gradient,
    fill_pair_,
    forward,
    input_gradient,
    point_gradient,
    weights,
)
from torchnpn.kernels.triton.learning import Adam, Penalty, fill_sums_, new_sums, update_
from torchnpn.kernels.triton.signals import FAST, FULL, Activation, Drop, Gradient
from torchnpn.kernels.triton.step import MOST_CLASSES, Lookup, gather, softmax_layer

PRECISIONS = {"fast": FAST, "float32": FULL}

__all__ = [
    "FAST",
    "FULL",
    "MOST_CLASSES",
    "PRECISIONS",
    "Activation",
    "Adam",
    "Drop",
    "Gradient",
    "Lookup",
    "Penalty",
    "activation_gradient",
    "fill_pair_",
    "fill_sums_",
    "forward",
    "gather",
    "input_gradient",
    "new_sums",
    "point_gradient",
    "softmax_layer",
    "update_",
    "weights",
]
