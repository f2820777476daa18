"""The Bernoulli family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import stats
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import checks
from torchnpn.families.base import ExponentialFamily
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import entering
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class Bernoulli(ExponentialFamily):
    """Bernoulli distribution p(x | p) = p^x (1-p)^(1-x) on x = 0, 1.

    Natural parameter η = log p/(1-p), sufficient statistic u(x) = x.
    """

    p: Tensor  # probability of a one, in [0, 1]

    domain = (checks.PROBABILITY,)
    support = constraints.boolean
    interior = 0.0

    @property
    def moments(self) -> Moments:
        p = entering(self.p)
        return Moments(p, p * (1 - p))

    @classmethod
    def project(cls, x: Moments) -> Self:
        """p = m: the mean says all."""
        return cls.unchecked(x.mean.clamp(0.0, 1.0))

    @classmethod
    def check_moments(cls, x: Moments) -> None:
        super().check_moments(x)
        valid = (x.mean >= 0) & (x.mean <= 1)
        checks.require(valid, x.mean, f"{cls.__name__}.from_moments expects a mean in [0, 1]", checks.UNIT_HINT)

    @property
    def natural(self) -> tuple[Tensor, ...]:
        return (torch.logit(entering(self.p)),)

    @staticmethod
    def log_partition(*eta: Tensor) -> Tensor:
        return -torch.nn.functional.logsigmoid(-eta[0])

    def _log_mean_exp(self, t: float) -> Tensor:
        """log(1 - p + p e^-t), by log1p where p is small."""
        small = self.p < 0.5
        by_log1p = torch.log1p(torch.where(small, self.p, 0.0) * math.expm1(-t))
        return torch.where(small, by_log1p, torch.log(self._mean_exp(t)))

    def _log_mean_exp_gap(self, t: float) -> Tensor:
        """log(1 + p (1-p) (1 - e^-t)²/E²) with E = E e^-tx, or 0 where x is certain."""
        scale = -math.expm1(-t) / self._mean_exp(t)
        return torch.log1p(torch.where(self.p < 1, self.p * scale * ((1 - self.p) * scale), 0.0))

    def _mean_exp(self, t: float) -> Tensor:
        """1 - p + p e^-t, kept above zero: at p = 1 and large t it underflows."""
        return ((1 - self.p) + self.p * math.exp(-t)).clamp_min(torch.finfo(self.p.dtype).tiny)

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Bernoulli:
        return torch.distributions.Bernoulli(self.p, validate_args=validate_args)

    def to_scipy(self) -> Any:
        return stats.bernoulli(*self._numpy())

    def _inside(self, y: Tensor) -> Tensor:
        return ((y == 1) & (self.p > 0)) | ((y == 0) & (self.p < 1))

    def _log_density(self, y: Tensor) -> Tensor:
        """log p or log(1-p); torch would keep p away from 0 and 1."""
        one, inner = y == 1, (self.p > 0) & (self.p < 1)
        log_p, log_rest = torch.log(torch.where(inner, self.p, 1.0)), torch.log1p(-torch.where(inner, self.p, 0.0))
        return torch.where(one, log_p, log_rest)

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        return (torch.rand(shape, dtype=self.dtype, device=self.device, generator=generator) < self.p).to(self.dtype)

    def _tails(self, y: Array) -> Tails:
        (p,) = np.broadcast_arrays(self._numpy()[0], y)[:1]
        return Tails(1 - p, p)  # at 0; from 1 on nothing is above

    def _quantile(self, q: Array) -> Array:
        (p,) = self._numpy()
        return np.asarray(np.where(q <= 0.5, q > 1 - p, p > 1 - q), dtype=np.float64)

    def _extremes(self) -> tuple[Array | float, Array | float]:
        (p,) = self._numpy()
        return 0.0, (p > 0).astype(np.float64)
