"""What families refuse, and what they say."""

from __future__ import annotations

import pytest
import torch
from support import cases
from test_families import moments

from torchnpn import families
from torchnpn.moments import Moments

BAD_PARAMETERS = [
    (families.Gaussian, (float("nan"), 1.0), r"Gaussian expects m to be finite, got nan\."),
    (families.Gaussian, (0.0, -1.0), r"Gaussian expects s ≥ 0 and finite, got -1\. .*softplus"),
    (families.Gamma, (0.0, 1.0), r"Gamma expects c > 0 and finite, got 0\. .*softplus"),
    (families.Gamma, (1.0, float("inf")), r"Gamma expects d > 0 and finite, got inf"),
    (families.Poisson, (-2.0,), r"Poisson expects c ≥ 0 and finite, got -2"),
    (families.Beta, (1.0, -1.0), r"Beta expects d > 0"),
    (families.Rayleigh, (0.0,), r"Rayleigh expects sigma2 > 0"),
    (families.Bernoulli, (1.5,), r"Bernoulli expects p in \[0, 1\], got 1.5\. .*sigmoid"),
    (families.InverseGaussian, (-1.0, 1.0), r"InverseGaussian expects mu > 0"),
    (families.InverseGaussian, (1.0, -1.0), r"InverseGaussian expects lam > 0"),
    (families.InverseGamma, (-1.0, 1.0), r"InverseGamma expects a > 0"),
    (families.Weibull, (-1.0, 1.0), r"Weibull expects lam > 0"),
    (families.Weibull, (1.0, -1.0), r"Weibull expects shape > 0"),
    (families.Pareto, (-1.0,), r"Pareto expects alpha > 0"),
    (families.Pareto, (1.0, 0.0), r"Pareto expects x_min > 0"),
    (families.Gumbel, (float("inf"),), r"Gumbel expects mu to be finite"),
    (families.Gumbel, (0.0, 0.0), r"Gumbel expects scale > 0"),
    (families.NegativeBinomial, (0.0, 0.5), r"NegativeBinomial expects n > 0"),
    (families.NegativeBinomial, (1.0, 1.0), r"NegativeBinomial expects p in \[0, 1\), got 1\."),
]


@pytest.mark.parametrize(("family", "parameters", "message"), BAD_PARAMETERS)
def test_constructor_says_what_is_wrong(family, parameters, message):
    with pytest.raises(ValueError, match=message):
        family(*parameters)


BAD_MOMENTS = [
    (families.Gaussian, (0.0, -1.0), {}, r"Gaussian\.from_moments expects a finite variance ≥ 0, got -1\."),
    (families.Gaussian, (float("nan"), 1.0), {}, r"expects a finite mean, got nan"),
    (families.Gamma, (0.0, 1.0), {}, r"Gamma\.from_moments expects a mean > 0, got 0\."),
    (families.Poisson, (-1.0, 1.0), {}, r"Poisson\.from_moments expects a mean ≥ 0, got -1\."),
    (families.Beta, (1.0, 0.1), {}, r"Beta\.from_moments expects a mean in \(0, 1\), got 1\. Scale the data"),
    (families.Beta, (0.5, 0.25), {}, r"Beta\.from_moments expects a variance < mean · \(1 - mean\), got 0\.25\."),
    (families.Rayleigh, (-1.0, 1.0), {}, r"Rayleigh\.from_moments expects a mean > 0"),
    (families.Bernoulli, (1.5, 0.1), {}, r"Bernoulli\.from_moments expects a mean in \[0, 1\], got 1\.5\."),
    (families.InverseGaussian, (-1.0, 1.0), {}, r"InverseGaussian\.from_moments expects a mean > 0"),
    (families.InverseGamma, (-1.0, 1.0), {}, r"InverseGamma\.from_moments expects a mean > 0"),
    (families.Weibull, (-1.0, 1.0), {}, r"Weibull\.from_moments expects a mean > 0"),
    (families.Weibull, (1.0, 1.0), {"shape": -1.0}, r"Weibull expects shape > 0"),
    (families.Pareto, (1.0, 1.0), {}, r"Pareto\.from_moments expects a mean > x_min, got 1\. Pass a smaller one"),
    (
        families.NegativeBinomial,
        (1.0, 1.0),
        {},
        r"expects a variance > the mean, got 1\. Use Poisson, or pass a known n",
    ),
    (families.NegativeBinomial, (-1.0, 1.0), {"n": 2.0}, r"NegativeBinomial\.from_moments expects a mean > 0"),
]


@pytest.mark.parametrize(("family", "pair", "known", "message"), BAD_MOMENTS)
def test_from_moments_says_what_is_wrong(family, pair, known, message):
    with pytest.raises(ValueError, match=message):
        family.from_moments(moments(*pair), **known)


def test_errors_about_types_and_shapes():
    with pytest.raises(TypeError, match=r"parameter c must be a floating-point tensor, got torch.int64\. Convert"):
        families.Gamma(torch.tensor([1]), 1.0)
    with pytest.raises(TypeError, match=r"Gamma\(d=\.\.\.\) expects a tensor, an array or a number, got str"):
        families.Gamma(1.0, "a")
    with pytest.raises(ValueError, match=r"Gamma expects shapes that broadcast together, got c of shape \(2,\)"):
        families.Gamma(torch.ones(2), torch.ones(3))
    with pytest.raises(ValueError, match=r"Gamma expects c > 0 and finite, got -1 \(1 of 3 values are wrong\)"):
        families.Gamma(torch.tensor([1.0, -1.0, 2.0]), 1.0)
    with pytest.raises(TypeError, match=r"Gamma\.from_moments expects npn\.Moments\(mean, variance\), got tuple"):
        families.Gamma.from_moments((1.0, 2.0))
    with pytest.raises(TypeError, match="expects tensors in Moments, got mean of type float"):
        families.Gamma.from_moments(Moments(1.0, torch.tensor(1.0)))
    with pytest.raises(ValueError, match=r"quantile expects probabilities in \[0, 1\], got 1.5"):
        families.Gamma(1.0, 1.0).quantile(1.5)
    with pytest.raises(NotImplementedError, match=r"torch\.distributions has no InverseGaussian"):
        families.InverseGaussian(1.0, 1.0).to_torch()


def test_resolve():
    assert families.resolve("inverse_gaussian") is families.InverseGaussian
    assert families.resolve(families.Gamma) is families.Gamma
    assert {case.name for case in cases.ALL} - {"log_normal"} == set(families.BY_NAME)  # a new family needs its row
    with pytest.raises(ValueError, match=r"expects a name or a class, got 'gama'\. Did you mean 'gamma'\?"):
        families.resolve("gama")
    with pytest.raises(ValueError, match=r"Did you mean 'negative_binomial'\?"):
        families.resolve("NegativeBinomial")
    with pytest.raises(TypeError, match="expects a name or a subclass of ExponentialFamily, got 3"):
        families.resolve(3)
