"""What each family of targets needs: a likelihood, units in which it starts well, and the way back to the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from torchnpn.families import ExponentialFamily, Gamma, Gaussian
from torchnpn.likelihoods import (
    BetaProportions,
    GammaAmounts,
    GaussianNoise,
    HeteroscedasticGaussian,
    Likelihood,
    NegativeBinomialCounts,
    PoissonCounts,
    VarianceParts,
)

Array = NDArray[Any]


class Units(NamedTuple):
    """y = shift + scale · t, with t what the network is trained on."""

    shift: Array  # (targets,)
    scale: Array  # (targets,), > 0


class Kind(NamedTuple):
    """A kind of target."""

    likelihood: Callable[[int, tuple[int, ...]], Likelihood]  # by the number of targets and the replicas
    units: Callable[[Array, Array | None], Units]  # from (rows, targets) and weights
    start: Callable[[Array], Array]  # latent value of a mean of the target, where the last bias starts
    least_kl: Callable[[Any], float | Array]
    """Of its likelihood as it is now: the least share of the KL's weight in training; one for each replica, if any."""


def _standardised(y: Array, weight: Array | None) -> Units:
    mean = np.average(y, axis=0, weights=weight)
    farthest = np.abs(y - mean).max(0)
    unit = np.where(farthest > 0, farthest, 1.0)  # squares of the numbers themselves may overflow
    std = unit * np.sqrt(np.average(((y - mean) / unit) ** 2, axis=0, weights=weight))
    rounding = 1e-12 * np.abs(mean)  # what it leaves of a constant target is no spread
    return Units(mean, np.where(std > rounding, std, np.maximum(1.0, rounding)))


def _relative(y: Array, weight: Array | None) -> Units:
    mean = np.average(y, axis=0, weights=weight)
    return Units(np.zeros_like(mean), np.where(mean > 0, mean, 1.0))


def _as_they_are(y: Array, weight: Array | None) -> Units:
    return Units(np.zeros(y.shape[1]), np.ones(y.shape[1]))


def _log(mean: Array) -> Array:
    logs: Array = np.log(np.maximum(mean, 1e-3))
    return logs


def _logit(mean: Array) -> Array:
    odds: Array = np.log(mean / (1 - mean))
    return odds


def _half_the_noise(likelihood: GaussianNoise | HeteroscedasticGaussian) -> float | Array:
    """Half the share of the targets' variance that is noise, as far as is known now."""
    noise = np.exp(likelihood.log_noise.detach().cpu().numpy()).mean(-1)  # (*replicas,)
    share = 0.5 * np.minimum(1.0, noise)
    return share if share.ndim else float(share)


def _mostly_noise(likelihood: Likelihood) -> float:
    return 0.3  # amounts, counts and proportions


KINDS = {
    "gaussian": Kind(
        lambda targets, replicas: GaussianNoise(targets, elbo=0.1, replicas=replicas),
        _standardised,
        np.zeros_like,
        _half_the_noise,
    ),
    "gamma": Kind(
        lambda targets, replicas: GammaAmounts(targets, elbo=0.1, replicas=replicas), _relative, _log, _mostly_noise
    ),
    "poisson": Kind(lambda targets, replicas: PoissonCounts(elbo=0.05), _as_they_are, _log, _mostly_noise),
    "negative_binomial": Kind(
        lambda targets, replicas: NegativeBinomialCounts(targets, elbo=0.05, replicas=replicas),
        _as_they_are,
        _log,
        _mostly_noise,
    ),
    "beta": Kind(
        lambda targets, replicas: BetaProportions(targets, replicas=replicas), _as_they_are, _logit, _mostly_noise
    ),
}
VARYING_NOISE = Kind(
    lambda targets, replicas: HeteroscedasticGaussian(targets, elbo=0.1, replicas=replicas),
    _standardised,
    np.zeros_like,
    _half_the_noise,
)


def in_units(distribution: ExponentialFamily, units: Units) -> ExponentialFamily:
    """The distribution of shift + scale · t for t ~ `distribution`."""
    shift, scale = (torch.from_numpy(part) for part in units)
    if isinstance(distribution, Gaussian):
        return Gaussian.unchecked(shift + scale * distribution.m, _finite(scale**2 * distribution.s))
    if isinstance(distribution, Gamma):
        return Gamma.unchecked(distribution.c, distribution.d / scale)
    return distribution


def parts_in_units(parts: VarianceParts, units: Units) -> VarianceParts:
    """The three variances in the square of the user's unit."""
    return VarianceParts(*(_finite(part * torch.from_numpy(units.scale) ** 2) for part in parts))


def _finite(variance: torch.Tensor) -> torch.Tensor:
    """The largest float64 number in place of those beyond."""
    return variance.clamp_max(torch.finfo(torch.float64).max)
