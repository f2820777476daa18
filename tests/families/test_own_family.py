"""A family of the user's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats

from torchnpn import families
from torchnpn.families import ExponentialFamily
from torchnpn.maps.saturating import saturating
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class Logarithmic(ExponentialFamily):
    """Logarithmic-series distribution p(x | p) = -p^x / (x log(1-p)) on x = 1, 2, …: no inverse of its moments."""

    p: torch.Tensor

    @property
    def natural(self):
        return (torch.log(self.p),)

    @staticmethod
    def log_partition(*eta):
        return torch.log(-torch.log1p(-torch.exp(eta[0])))

    def to_scipy(self):
        return stats.logser(*self._numpy())


@dataclass(frozen=True, eq=False)
class Geometric(ExponentialFamily):
    p: torch.Tensor

    @classmethod
    def from_moments(cls, x):
        return cls(x.mean / (1 + x.mean))

    natural = Logarithmic.natural

    @staticmethod
    def log_partition(*eta):
        return -torch.log1p(-torch.exp(eta[0]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_own_family_from_its_log_partition(dtype):
    p = [0.1, 0.5, 0.9]
    own, twin = Logarithmic(torch.tensor(p, dtype=dtype)), stats.logser(np.array(p))
    rtol = {torch.float64: 1e-9, torch.float32: 1e-5}[dtype]
    np.testing.assert_allclose(own.mean, twin.mean(), rtol=rtol)
    np.testing.assert_allclose(own.variance, twin.var(), rtol=rtol)
    np.testing.assert_allclose(own.cdf(3.0), twin.cdf(3), rtol=rtol)
    a = saturating(own, 0.5, r=1.5, q=0.7)
    x = np.arange(1, 2000)[:, None]
    v, weight = 1.5 - 0.7 * np.exp(-0.5 * x), twin.pmf(x)
    mean = (weight * v).sum(0)
    np.testing.assert_allclose(a.mean, mean, rtol=rtol)
    np.testing.assert_allclose(a.variance, (weight * (v - mean) ** 2).sum(0), rtol=rtol)
    other = Logarithmic(torch.tensor([0.3, 0.5, 0.2], dtype=dtype))
    p, p0 = np.array(p), np.array([0.3, 0.5, 0.2])
    expected = (weight * (x * np.log(p / p0) + np.log(np.log1p(-p0) / np.log1p(-p)))).sum(0)
    np.testing.assert_allclose(families.kl(own, other), expected, rtol=rtol, atol=1e-12)


def test_own_family_with_from_moments():
    member = Geometric.project(Moments(torch.tensor([0.5, 3.0], requires_grad=True)))
    np.testing.assert_allclose(member.mean.detach(), [0.5, 3.0], rtol=1e-6)
    np.testing.assert_allclose(member.variance.detach(), [0.75, 12.0], rtol=1e-6)
    saturating(member, 1.0).mean.sum().backward()
    with pytest.raises(NotImplementedError, match="Logarithmic needs a from_moments"):
        Logarithmic.project(Moments(torch.tensor(1.5)))
    with pytest.raises(NotImplementedError, match=r"Geometric has no counterpart in scipy\.stats"):
        member.cdf(1.0)
