"""Theorem 1: values against quadrature and 60 digits, gradients, the float32 contract, everywhere finite."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support import bounds, cases

from torchnpn import families
from torchnpn.families import Beta, Gamma, Gaussian, Gumbel, InverseGamma, Poisson
from torchnpn.maps.saturating import saturating
from torchnpn.moments import Moments

by_name = pytest.mark.parametrize("case", cases.FAMILIES, ids=lambda case: case.name)
TAUS = pytest.mark.parametrize("tau", [0.1, 1.0])


@TAUS
@by_name
def test_saturating_matches_quadrature(case, tau):
    def v(x):
        return 1.5 - 0.7 * np.exp(-tau * case.activation_u(x))

    a = saturating(case.member, tau, r=1.5, q=0.7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quad doubts some tails, Gumbel's u overflows; the comparison decides
        mean = case.scipy.expect(v)
        variance = case.scipy.expect(lambda x: (v(x) - mean) ** 2)
    np.testing.assert_allclose((a.mean, a.variance), (mean, variance), rtol=1e-7)


@pytest.mark.parametrize(
    ("member", "statistic", "u", "scipys"),
    [
        (Gamma(3.0, 2.0), 0, np.log, stats.gamma(3, scale=0.5)),
        (Beta(4.0, 3.0), 0, np.log, stats.beta(4, 3)),
        (Beta(4.0, 3.0), 1, lambda x: np.log1p(-x), stats.beta(4, 3)),
        (InverseGamma(3.0, 2.0), 1, lambda x: 1 / x, stats.invgamma(3, scale=2)),
        (Gaussian(0.7, 1.3), 1, np.square, stats.norm(0.7, np.sqrt(1.3))),
    ],
    ids=["gamma log x", "beta log x", "beta log(1 - x)", "inverse gamma 1/x", "gaussian x²"],
)
def test_theorem_1_holds_for_any_statistic(member, statistic, u, scipys):
    a = saturating(member.to(torch.float64), 0.4, r=1.5, q=0.7, statistic=statistic)
    mean = scipys.expect(lambda x: 1.5 - 0.7 * np.exp(-0.4 * u(x)))
    variance = scipys.expect(lambda x: (1.5 - 0.7 * np.exp(-0.4 * u(x)) - mean) ** 2)
    np.testing.assert_allclose((a.mean, a.variance), (mean, variance), rtol=1e-6)


def test_moments_that_do_not_exist_are_the_largest_numbers():
    """E x^-τ of a gamma variable is infinite for shapes up to τ, E x^-2τ for those up to 2τ."""
    c = torch.tensor([0.3, 0.7, 1.5], requires_grad=True)
    a = saturating(Gamma(c, torch.ones(3)), 0.5, statistic=0)
    largest = torch.finfo(torch.float32).max  # the exponential of its logarithm is it but for rounding
    assert a.mean[0] < -0.9 * largest and (a.variance[:2] > 0.9 * largest).all()
    assert a.mean[1:].isfinite().all() and a.variance[2] < 1
    (slope,) = torch.autograd.grad(a.mean.sum(), c)
    assert slope.isfinite().all()
    with pytest.raises(ValueError, match="Gamma has 2 sufficient statistics, counted from 0, got statistic=2"):
        saturating(Gamma(1.0, 1.0), 0.5, statistic=2)


@TAUS
@by_name
def test_float32_keeps_its_bounds_over_wide_grids(case, tau):
    member, bound = case.grid(torch.float32), bounds.FAMILIES[case.name]
    mean, variance = cases.exact_moments(case, member, tau)
    a = saturating(member, tau)
    assert (np.abs(a.mean.double().numpy() - mean) <= bound.a * (1 + np.abs(mean))).all()
    assert (np.abs(a.variance.double().numpy() - variance) <= bound.b * variance + bound.c).all()
    scaled = saturating(member, tau, r=2.0, q=3.0)
    assert (np.abs(scaled.mean.double().numpy() - (3 * mean - 1)) <= 5 * bound.a * (1 + np.abs(mean))).all()
    torch.testing.assert_close(scaled.variance, 9 * a.variance, rtol=1e-6, atol=0.0)


@TAUS
@by_name
def test_float64_is_exact_over_wide_grids(case, tau):
    member = case.grid(torch.float64)
    mean, variance = cases.exact_moments(case, member, tau)
    a = saturating(member, tau)
    np.testing.assert_allclose(a.mean, mean, rtol=1e-12, atol=0.0)
    np.testing.assert_allclose(a.variance, variance, rtol=1e-12, atol=1e-200)


@by_name
def test_gradients(case):
    values = [v.clone().requires_grad_() for v in vars(case.member).values()]
    for tau in (0.1, 1.0, 5.0):
        assert torch.autograd.gradcheck(lambda *v, t=tau: tuple(saturating(case.family.unchecked(*v), t)), values)


@by_name
def test_float32_gradients_agree_with_float64_over_wide_grids(case):
    """Scaled by the parameter: d mean / d log θ. The gradient trap (expm1 once saturated) costs 1e-4 here."""
    slopes = []
    for dtype in (torch.float32, torch.float64):
        member = case.grid(torch.float32).to(dtype)
        values = [v.requires_grad_() for v in vars(member).values()]
        saturating(case.family.unchecked(*values), 0.5).mean.sum().backward()
        slopes.append([(v.grad * v.detach()).double().numpy() for v in values if v.grad is not None])
    for single, double in zip(*slopes, strict=True):
        np.testing.assert_allclose(single, double, rtol=1e-5, atol=1e-6)


@by_name
@pytest.mark.parametrize("tau", [1e-6, 0.3, 30.0, 1000.0])
def test_values_and_gradients_are_finite_everywhere(case, tau):
    member = case.grid(torch.float32)
    values = [v.requires_grad_() for v in vars(member).values()]
    a = saturating(case.family.unchecked(*values), tau, r=0.5, q=-2.0)
    assert a.mean.isfinite().all()
    assert (a.variance >= 0).all()
    assert a.variance.isfinite().all()
    (a.mean.sum() + a.variance.sum()).backward()
    assert all(v.grad is None or v.grad.isfinite().all() for v in values)


@pytest.mark.parametrize("name", ["gamma", "beta", "inverse_gaussian", "inverse_gamma"])
def test_zero_variance_is_the_plain_function(name):
    """A point in, v(point) out, as well as a family can hold a point; families of one parameter cannot."""
    m = torch.tensor([0.2, 0.5, 0.9])
    a = saturating(families.resolve(name).project(Moments(m)), 0.7)
    u = {"beta": -torch.log(m), "inverse_gamma": 1 / m}.get(name, m)
    torch.testing.assert_close(a.mean, 1 - torch.exp(-0.7 * u), rtol=1e-5, atol=1e-6)
    assert (a.variance < 1e-5).all()


def test_increasing_forms():
    """r = 0, q = -1 turns the falling statistics of beta, inverse gamma and Gumbel into increasing activations."""
    power = saturating(Beta(torch.tensor(2.0), torch.tensor(3.0)), 1.0, r=0.0, q=-1.0)
    torch.testing.assert_close(power, Beta(2.0, 3.0).moments)
    tiny = saturating(Beta(0.01, 1e5), 1.0, r=0.0, q=-1.0)
    torch.testing.assert_close(
        tiny.mean, torch.tensor(0.01 / 100000.01), rtol=1e-5, atol=0.0
    )  # small means keep digits
    assert saturating(InverseGamma(3.0, 1.0), 1.0, r=0.0, q=-1.0).mean == pytest.approx(1 / 8)
    mu = torch.linspace(-5, 5, 9)
    torch.testing.assert_close(saturating(Gumbel(mu), 1.0, r=0.0, q=-1.0).mean, torch.sigmoid(mu))


def test_half_precision_is_computed_in_float32():
    member = Gamma(torch.tensor([2.0, 300.0]), torch.tensor([3.0, 5.0]))
    for dtype in (torch.bfloat16, torch.float16):
        a = saturating(member.to(dtype), 0.1)
        assert a.mean.dtype == a.variance.dtype == dtype
        torch.testing.assert_close(a, Moments(*(v.to(dtype) for v in saturating(member, 0.1))))


def test_gaussian_too():
    """u = x: exp(-τ x) is log-normal."""
    m, s = torch.tensor([0.3, -1.0]), torch.tensor([0.5, 0.0])
    a = saturating(Gaussian(m, s), 1.0, r=0.0, q=-1.0)
    torch.testing.assert_close(a.mean, torch.exp(-m + s / 2))
    torch.testing.assert_close(a.variance, torch.exp(-2 * m + s) * torch.expm1(s))


@pytest.mark.parametrize("tau", [0.0, -1.0, float("nan"), float("inf"), torch.tensor(1.0), "1"])
def test_tau_is_a_positive_number(tau):
    with pytest.raises(ValueError, match=r"saturating expects tau, a finite Python number > 0, got"):
        saturating(Poisson(1.0), tau)


@pytest.mark.slow
def test_compile_export_vmap():
    def function(c, d):
        return saturating(Gamma.unchecked(c, d), 0.5), saturating(Beta.unchecked(c, d), 0.5, r=0.0, q=-1.0)

    class Module(torch.nn.Module):
        def forward(self, c, d):
            return function(c, d)

    c, d = torch.rand(4) + 0.5, torch.rand(4) + 0.5
    expected = function(c, d)
    torch.testing.assert_close(torch.compile(function, fullgraph=True, backend="aot_eager")(c, d), expected)
    torch.testing.assert_close(torch.func.vmap(function)(c, d), expected)
    for strict in (False, True):
        torch.testing.assert_close(torch.export.export(Module(), (c, d), strict=strict).module()(c, d), expected)


moderate = st.floats(-6, 6).map(lambda e: 10.0**e)


@settings(max_examples=80, deadline=None)
@given(m=moderate, s=moderate, tau=st.floats(-3, 1.5).map(lambda e: 10.0**e))
def test_a_network_never_sees_a_bad_number(m, s, tau):
    for family in families.BY_NAME.values():
        if family is Gaussian:
            continue
        x = Moments(torch.tensor(m, requires_grad=True), torch.tensor(s, requires_grad=True))
        a = saturating(family.project(x), tau)
        assert a.mean.isfinite()
        assert a.variance >= 0
        assert a.variance <= 0.25 * (1 + 1e-5)  # of a variable between 0 and 1
        (a.mean + a.variance).backward()
        assert x.mean.grad.isfinite()
        assert x.variance.grad is None or x.variance.grad.isfinite()


@settings(max_examples=60, deadline=None)
@given(m=st.floats(-3, 3).map(lambda e: 10.0**e), v=st.floats(-3, 1).map(lambda e: 10.0**e))
def test_activation_increases_with_the_mean(m, v):
    """At one relative variance; for families whose statistic rises with x."""
    means = torch.tensor([m, 1.01 * m], dtype=torch.float64)
    for name in ("gamma", "poisson", "rayleigh", "inverse_gaussian", "weibull", "negative_binomial"):
        spread = v * means**2 + (means if name == "negative_binomial" else 0)
        low, high = saturating(families.resolve(name).from_moments(Moments(means, spread)), 1.0).mean
        assert high >= low
    for name in ("inverse_gamma", "gumbel"):
        low, high = saturating(families.resolve(name).project(Moments(means, v * means**2)), 1.0, r=0.0, q=-1.0).mean
        assert high >= low
