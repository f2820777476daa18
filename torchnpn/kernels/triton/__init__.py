"""Fused kernels in Triton, for CUDA devices; imported only where one is used, because Triton is not always there.

`activations` has the moments of each activation and their derivatives, `epilogues` what they end, `products` the three
matrix kernels, `update` new weights; `signals` what they take, `layer` a layer's passes made of them, `step` the rest
of a training step. `linear` is what autograd calls, `chain` what training a chain calls.
"""

from torchnpn.kernels.triton import gaussian_loss, linear, optimizer, sparse
from torchnpn.kernels.triton.chain import Layer, TritonChain
from torchnpn.kernels.triton.noise_loss import MOST_TARGETS, noise_loss
from torchnpn.kernels.triton.signals import FAST, FULL, Activation, Gradient, pad
from torchnpn.kernels.triton.step import MOST_CLASSES

PRECISIONS = {"fast": FAST, "float32": FULL}

__all__ = [
    "FAST",
    "FULL",
    "MOST_CLASSES",
    "MOST_TARGETS",
    "PRECISIONS",
    "Activation",
    "Gradient",
    "Layer",
    "TritonChain",
    "gaussian_loss",
    "linear",
    "noise_loss",
    "optimizer",
    "pad",
    "sparse",
]
