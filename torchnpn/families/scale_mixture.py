"""A prior that is not an exponential family: a mixture of zero-mean Gaussians, a spike and a slab for example."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from torchnpn.families import checks
from torchnpn.finite import clamped

_LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True, eq=False)
class GaussianScaleMixture:
    """Σ_k π_k N(0, v_k), for instance π N(0, 1) + (1-π) N(0, e^-12); a prior for `kl`, not a family of a network.

    >>> prior = GaussianScaleMixture(weights=[0.5, 0.5], variances=[1.0, 0.01])
    >>> prior.log_prob(torch.tensor(0.0))
    tensor(0.7858)
    """

    weights: Tensor  # π, shape (K,), ≥ 0, sum 1
    variances: Tensor  # v, shape (K,), > 0

    def __post_init__(self) -> None:
        for name in ("weights", "variances"):
            value = checks.as_tensor(getattr(self, name), f"GaussianScaleMixture({name}=...)")
            checks.check_floating(value, f"GaussianScaleMixture's {name}")
            object.__setattr__(self, name, value)
        if self.weights.ndim != 1 or self.weights.shape != self.variances.shape:
            raise ValueError(
                "GaussianScaleMixture expects weights and variances of one shape (K,), one entry per component, got "
                f"{tuple(self.weights.shape)} and {tuple(self.variances.shape)}."
            )
        positive = (self.variances > 0) & self.variances.isfinite()
        checks.require(self.weights >= 0, self.weights, "GaussianScaleMixture expects weights ≥ 0")
        checks.require(positive, self.variances, "GaussianScaleMixture expects finite variances > 0")
        total = self.weights.sum()
        checks.require((total - 1).abs() < 1e-4, total, "GaussianScaleMixture expects weights with sum 1")

    def log_prob(self, y: Tensor | float) -> Tensor:
        """Log density of `y`, element by element."""
        y = torch.as_tensor(y, dtype=self.weights.dtype, device=self.weights.device)[..., None]
        log_normal = clamped(-0.5 * ((y / self.variances.sqrt()) ** 2 + torch.log(self.variances) + _LOG_2PI))
        return clamped(torch.logsumexp(torch.log(self.weights) + log_normal, dim=-1))
