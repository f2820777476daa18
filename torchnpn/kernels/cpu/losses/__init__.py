"""Losses of likelihoods and their gradients in closed form, in numpy: what training a small chain calls at each step.

Each function takes latent means and variances (*replicas, batch, outputs), targets, the share w of each row in the
loss, and what the likelihood has learnt, (*replicas, targets). It gives None where latents are beyond the limits of the
likelihood, or numbers beyond float32: the caller then asks autograd. Tests hold these formulas and those of
`torchnpn.likelihoods` together.
"""

from torchnpn.kernels.cpu.losses.amounts import gamma, hurdle
from torchnpn.kernels.cpu.losses.classes import ordered_classes, scaled_softmax
from torchnpn.kernels.cpu.losses.durations import (
    GUMBEL,
    WeibullLimits,
    censored,
    normal_interval,
    varying_normal_interval,
    weibull,
    weibull_interval,
)
from torchnpn.kernels.cpu.losses.gradient import ClosedForm, LossGradient
from torchnpn.kernels.cpu.losses.heavy_tails import student_t, varying_student_t
from torchnpn.kernels.cpu.losses.noise import gaussian, of_logarithm, varying_gaussian
from torchnpn.kernels.cpu.losses.rates import CountLimits, counts, with_offset, zero_inflated_counts
from torchnpn.kernels.cpu.losses.shares import beta

__all__ = [
    "GUMBEL",
    "ClosedForm",
    "CountLimits",
    "LossGradient",
    "WeibullLimits",
    "beta",
    "censored",
    "counts",
    "gamma",
    "gaussian",
    "hurdle",
    "normal_interval",
    "of_logarithm",
    "ordered_classes",
    "scaled_softmax",
    "student_t",
    "varying_gaussian",
    "varying_normal_interval",
    "varying_student_t",
    "weibull",
    "weibull_interval",
    "with_offset",
    "zero_inflated_counts",
]
