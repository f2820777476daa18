"""Noise as regularisation: dropout, sampled and in closed form, and uncertain inputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from torchnpn import nn
from torchnpn.moments import Moments


def inputs():
    first, second = (torch.Generator().manual_seed(seed) for seed in (1, 2))
    return Moments(torch.rand(6, 5, generator=first), 0.1 * torch.rand(6, 5, generator=second))


def test_dropout_takes_one_mask_for_both_moments():
    torch.manual_seed(0)
    a = Moments(torch.full((200, 50), 2.0), torch.full((200, 50), 3.0))
    out = nn.Dropout(0.25)(a)
    dropped = out.mean == 0
    assert torch.equal(dropped, out.variance == 0)
    torch.testing.assert_close(out.mean[~dropped], torch.full_like(out.mean[~dropped], 2 / 0.75))
    torch.testing.assert_close(out.variance[~dropped], torch.full_like(out.mean[~dropped], 3 / 0.75**2))
    np.testing.assert_allclose(dropped.float().mean(), 0.25, atol=5 * (0.25 * 0.75 / 10_000) ** 0.5)


def test_dropout_scales_the_variance_as_sampling_does():
    """x · mask/(1-p), x sampled: the mean over masks of (variance + mean²) is that of the masked variable."""
    torch.manual_seed(0)
    m, s, n = 0.7, 0.4, 400_000
    a = Moments(torch.full((n,), m), torch.full((n,), s))
    out = nn.Dropout(0.3)(a)
    x = (m + s**0.5 * torch.randn(n)) * F.dropout(torch.ones(n), 0.3)
    np.testing.assert_allclose((out.variance + out.mean**2).mean(), (x**2).mean(), rtol=0.01)
    analytic = nn.AnalyticDropout(0.3)(Moments(torch.tensor(m), torch.tensor(s)))
    np.testing.assert_allclose(tuple(analytic), (x.mean(), x.var()), rtol=0.01)


@pytest.mark.parametrize("kind", [nn.Dropout, nn.AnalyticDropout])
def test_dropout_is_off_in_evaluation(kind):
    a = inputs()
    assert kind(0.5).eval()(a) is a
    assert all(x is y for x, y in zip(kind(0.0)(a), a, strict=True))
    point = kind(0.5).eval()(a.mean)
    assert point.variance is None
    for p in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="0 ≤ p < 1"):
            kind(p)


def test_dropout_of_a_point():
    torch.manual_seed(0)
    assert nn.Dropout(0.5)(torch.ones(3, 4)).variance is None
    torch.testing.assert_close(nn.AnalyticDropout(0.5)(torch.ones(3, 4)).variance, torch.ones(3, 4))


def test_input_noise_adds_its_variance():
    a = inputs()
    torch.testing.assert_close(nn.InputNoise(0.3)(a).variance, a.variance + 0.3)
    out = nn.InputNoise(0.3)(a.mean)
    assert torch.equal(out.mean, a.mean)
    torch.testing.assert_close(out.variance, torch.full_like(a.mean, 0.3))
    for variance in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="variance ≥ 0"):
            nn.InputNoise(variance)
