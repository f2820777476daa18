"""The continuous ranked probability score of what an estimator predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from torchnpn import metrics
from torchnpn.families import Beta, ExponentialFamily, Gamma, Gaussian, NegativeBinomial
from torchnpn.likelihoods import Mixture
from torchnpn.metrics.crps import crps_mixture, crps_mixture_counts

Array = NDArray[Any]
_TAIL = 1e-12  # probability beyond the ends of a mixture
_TURNS = (0.01, 0.5, 0.99)  # where a distribution function begins to rise, rises most, and ends


def crps(distribution: ExponentialFamily | Mixture, y: Array) -> Array:
    """CRPS of each element of `y`, which has the shape of the distribution, or its last dimensions."""
    match distribution:
        case Mixture():
            return _crps_of_mixture(distribution, y)
        case Gaussian(m, s):
            return metrics.crps_gaussian(_numpy(m), np.sqrt(_numpy(s)), y)
        case Gamma(c, d):
            return metrics.crps_gamma(_numpy(c), _numpy(d), y)
        case NegativeBinomial(n, p):
            return metrics.crps_negative_binomial(_numpy(n), _numpy(p), y)
        case Beta(c, d):
            return metrics.crps_beta(_numpy(c), _numpy(d), y)
    raise NotImplementedError(f"No CRPS is known for {type(distribution).__name__}.")


def _crps_of_mixture(mixture: Mixture, y: Array) -> Array:
    """In closed form for Gaussians; else from the members' scores and their distribution functions."""
    members = mixture.members
    if isinstance(members, Gaussian):
        return metrics.crps_mixture_gaussian(_numpy(members.m), np.sqrt(_numpy(members.s)), y)

    def cdf(x: Array) -> Array:
        return _numpy(members.cdf(torch.as_tensor(x)))

    low, high = _quantiles(members, _TAIL).min(0), _quantiles(members, 1 - _TAIL).max(0)
    if members.support.is_discrete:
        return crps_mixture_counts(crps(members, y), cdf, low, high)
    turns = np.sort(np.concatenate([_quantiles(members, level) for level in _TURNS]), axis=0)
    return crps_mixture(crps(members, y), cdf, np.stack([low, *turns, high]))


def _quantiles(members: ExponentialFamily, level: float) -> Array:
    return _numpy(members.quantile(level))


def _numpy(values: torch.Tensor) -> Array:
    array: Array = values.detach().cpu().double().numpy()
    return array
