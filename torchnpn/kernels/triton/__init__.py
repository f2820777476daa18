"""Fused kernels in Triton, for CUDA devices; imported only where one is used, because Triton is not always there.

`activations` has the moments of each activation and their derivatives, `products` the three matrix kernels that end in
them, `linear` what autograd calls, `step` the rest of a training step: gathering, the loss, Adam.
"""

from torchnpn.kernels.triton.layer import (
    FAST,
    FULL,
    Activation,
    Adam,
    Drop,
    Gradient,
    Penalty,
    activation_gradient,
    fill_pair_,
    fill_sums_,
    forward,
    input_gradient,
    new_sums,
    update_,
    weights,
)
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
    "softmax_layer",
    "update_",
    "weights",
]
