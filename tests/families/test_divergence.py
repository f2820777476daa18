"""KL divergences against quadrature, and against textbook formulas at 60 digits over wide grids."""

from __future__ import annotations

import itertools
import warnings

import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from support import cases

from torchnpn import families
from torchnpn.families import Gamma, Gaussian, GaussianScaleMixture, NegativeBinomial, Pareto, Poisson, kl

by_name = pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.name)
OTHER = {  # a second member of each family, with other known constants where the closed form allows them
    "gaussian": (1.5, 0.9),
    "log_normal": (-0.2, 0.9),
    "gamma": (0.8, 2.0),
    "poisson": (1.9,),
    "beta": (0.7, 2.5),
    "rayleigh": (0.6,),
    "bernoulli": (0.8,),
    "inverse_gaussian": (0.7, 3.0),
    "inverse_gamma": (3.0, 2.9),
    "weibull": (2.2, 1.3),
    "pareto": (2.5, 0.9),
    "gumbel": (-0.3, 1.6),
    "negative_binomial": (2.5, 0.7),
}


def double(family, *parameters):
    return family(*(torch.tensor(value, dtype=torch.float64) for value in parameters))


def quadrature(p, q):
    """E_p log p/q, by summation or integration of two frozen scipy distributions."""
    if hasattr(p.dist, "pmf"):
        x = np.arange(400)
        weight = p.pmf(x)
        x, weight = x[weight > 0], weight[weight > 0]
        return (weight * (p.logpmf(x) - q.logpmf(x))).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quad doubts some tails; the comparison that follows decides
        level = np.concatenate([[1e-14, 1e-9, 1e-5], np.linspace(0.01, 0.99, 12), 1 - np.array([1e-5, 1e-9])])
        knots = p.ppf(level)
        knots = np.append(knots, p.isf(1e-14))
        parts = itertools.pairwise(knots)
        return sum(integrate.quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), *ab)[0] for ab in parts)


@by_name
def test_kl_matches_quadrature(case):
    other = double(case.family, *OTHER[case.name])
    np.testing.assert_allclose(kl(case.member, other), quadrature(case.scipy, other.to_scipy()), rtol=1e-6)


@by_name
def test_kl_of_equals_is_zero(case):
    for dtype in (torch.float64, torch.float32):
        member = case.grid(dtype)
        if case.name == "gaussian":  # a point has no density
            member = Gaussian(member.m, member.s.clamp_min(1e-8))
        assert (kl(member, member) == 0).all() or kl(member, member).abs().max() < 1e-8


@by_name
def test_bregman_form_agrees(case):
    """A(η_q) - A(η_p) - (η_q - η_p)·∇A(η_p), which knows nothing of the closed forms; same known constants."""
    known = case.known_of(case.member) | ({"n": 2.5} if case.name == "negative_binomial" else {})
    values = dict(zip(case.family.__match_args__, OTHER[case.name], strict=True)) | known
    other = double(case.family, *(float(v) for v in values.values()))
    expected = families.divergence.bregman(case.member, other)
    np.testing.assert_allclose(kl(case.member, other), expected, rtol=1e-9)


@by_name
def test_kl_gradients(case):
    p = [v.clone().requires_grad_() for v in vars(case.member).values()]
    q = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in OTHER[case.name]]
    if case.name == "negative_binomial":  # n is one and the same, and not learnt
        p[0].requires_grad_(False)
        q[0].requires_grad_(False)

    def divergence(*values):
        return kl(case.family.unchecked(*values[: len(p)]), case.family.unchecked(*values[len(p) :]))

    assert torch.autograd.gradcheck(divergence, (*p, *q))


# Wide grids in float32 -----------------------------------------------------------------------------------------


def _bernoulli(p, q):
    return sum(a * mp.log(a / b) for a, b in ((p, q), (1 - p, 1 - q)) if a > 0)


def _gamma(c, d, c0, d0):
    lead = (c - c0) * mp.digamma(c) - mp.loggamma(c) + mp.loggamma(c0)
    return lead + c0 * mp.log(d / d0) + c * (d0 - d) / d


def _beta(c, d, c0, d0):
    def log_beta(a, b):
        return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)

    lead = log_beta(c0, d0) - log_beta(c, d) + (c - c0) * mp.digamma(c) + (d - d0) * mp.digamma(d)
    return lead + (c0 - c + d0 - d) * mp.digamma(c + d)


def _gumbel(mu, s, mu0, s0):
    lead = mp.log(s0 / s) + mp.euler * (s / s0 - 1) + (mu - mu0) / s0
    return lead + mp.exp((mu0 - mu) / s0) * mp.gamma(1 + s / s0) - 1


def _weibull(lam, k, lam0, k0):
    lead = mp.log(k / lam**k) - mp.log(k0 / lam0**k0) + (k - k0) * (mp.log(lam) - mp.euler / k)
    return lead + (lam / lam0) ** k0 * mp.gamma(k0 / k + 1) - 1


TEXTBOOK = {  # name: (formula, float32 bound of the relative error over pairs of the wide grid)
    "gaussian": (lambda m, s, m0, s0: ((m - m0) ** 2 / s0 + s / s0 - 1 - mp.log(s / s0)) / 2, 5e-7),
    "log_normal": (lambda m, s, m0, s0: ((m - m0) ** 2 / s0 + s / s0 - 1 - mp.log(s / s0)) / 2, 5e-7),
    "gamma": (_gamma, 5e-7),
    "poisson": (lambda c, c0: c0 - c + (c * mp.log(c / c0) if c else 0), 5e-7),
    "beta": (_beta, 2e-6),
    "rayleigh": (lambda s, s0: s / s0 - 1 - mp.log(s / s0), 5e-7),
    "bernoulli": (_bernoulli, 5e-7),
    "inverse_gaussian": (lambda m, a, m0, b: (b / a - 1 - mp.log(b / a) + b * (m - m0) ** 2 / (m * m0**2)) / 2, 1e-6),
    "inverse_gamma": (_gamma, 5e-7),
    "weibull": (_weibull, 2e-5),
    "pareto": (lambda a, x, a0, x0: mp.log(a / a0) + a0 * mp.log(x / x0) + a0 / a - 1, 1e-6),
    "gumbel": (_gumbel, 2e-5),
    "negative_binomial": (lambda n, p, n0, p0: n / (1 - p) * _bernoulli(p, p0), 5e-7),
}


def pairs_over_grid(case, dtype):
    """Every seventh member of the grid against near and far others, where the divergence is finite."""
    rng = np.random.default_rng(0)
    mesh = [axis.ravel() for axis in np.meshgrid(*case.wide, indexing="ij")]
    left, right = [], []
    for i in range(0, mesh[0].size, max(1, mesh[0].size // 25)):
        for j, factor in (
            (i, 1.001),
            (i, 0.8),
            (i, 1.0 - 1e-5),
            *((j, 1.0) for j in rng.integers(mesh[0].size, size=4)),
        ):
            left.append([axis[i] for axis in mesh])
            right.append([axis[j] * factor for axis in mesh])
    left, right = np.array(left), np.array(right)
    if case.name in ("negative_binomial", "weibull", "pareto", "gumbel"):
        constant = 0 if case.name == "negative_binomial" else 1
        right[:, constant] = left[:, constant]
    if case.name in ("bernoulli", "negative_binomial"):
        inside = (right[:, -1] > 0) & (right[:, -1] < 1) & (left[:, -1] < 1)
        left, right = left[inside], right[inside]
    if case.name == "gaussian":
        left[:, 1], right[:, 1] = left[:, 1].clip(1e-8), right[:, 1].clip(1e-8)
    if case.name == "poisson":
        right = right.clip(1e-8)
    if case.name == "weibull":
        close = np.abs(left[:, 1] * np.log(left[:, 0] / right[:, 0])) < 60
        left, right = left[close], right[close]
    if case.name == "gumbel":
        close = np.abs((left[:, 0] - right[:, 0]) / left[:, 1]) < 60
        left, right = left[close], right[close]
    return tuple(case.family(*(torch.tensor(column).to(dtype) for column in side.T)) for side in (left, right))


@by_name
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kl_over_wide_grids(case, dtype):
    p, q = pairs_over_grid(case, dtype)
    ours = kl(p, q)
    formula, bound = TEXTBOOK[case.name]
    with mp.workdps(60):
        rows = zip(*(v.tolist() for v in (*vars(p).values(), *vars(q).values())), strict=True)
        exact = [formula(*map(mp.mpf, row)) for row in rows]
        error = [float(abs(mp.mpf(a) - b)) for a, b in zip(ours.tolist(), exact, strict=True)]
    exact = np.array([float(b) for b in exact])
    rtol = bound if dtype == torch.float32 else bound * 1e-8
    floor = 1e-9 if case.name == "beta" else 1e-13  # beta: a difference of larger divergences
    worst = np.argmax(np.array(error) - rtol * exact)
    assert (np.array(error) <= rtol * exact + floor).all(), (error[worst], exact[worst], worst)
    assert (ours >= 0).all()


# The other pairs -----------------------------------------------------------------------------------------------


def test_gamma_against_gaussian_prior():
    c, d = (torch.tensor(v.ravel()) for v in np.meshgrid(cases.powers(-3, 5), cases.powers(-2, 3)))
    for dtype, rtol in ((torch.float64, 1e-11), (torch.float32, 2e-6)):
        p = Gamma(c.to(dtype), d.to(dtype))
        for m0, s0 in ((0.0, 0.5), (1.5, 2.0)):
            ours = kl(p, Gaussian(torch.tensor(m0, dtype=dtype), torch.tensor(s0, dtype=dtype)))
            with mp.workdps(40):
                exact = [
                    _gamma_gaussian(mp.mpf(a), mp.mpf(b), m0, s0)
                    for a, b in zip(p.c.tolist(), p.d.tolist(), strict=True)
                ]
            np.testing.assert_allclose(ours, exact, rtol=rtol)
    p, q = double(Gamma, 2.5, 1.5), double(Gaussian, 1.5, 2.0)
    np.testing.assert_allclose(kl(p, q), quadrature(p.to_scipy(), q.to_scipy()), rtol=1e-7)


def _gamma_gaussian(c, d, m0, s0):
    entropy = c - mp.log(d) + mp.loggamma(c) + (1 - c) * mp.digamma(c)
    return float(-entropy + mp.log(2 * mp.pi * s0) / 2 + ((c / d - m0) ** 2 + c / d**2) / (2 * s0))


def test_scale_mixture_bound():
    prior = GaussianScaleMixture(torch.tensor([0.3, 0.7]), torch.tensor([1.0, 0.01]))
    m, s = (torch.tensor(v.ravel()).float() for v in np.meshgrid([0.0, 0.1, 1.0, 4.0], [1e-4, 0.01, 0.3, 2.0]))
    bound = kl(Gaussian(m, s), prior)

    def log_density(x):
        return np.logaddexp(np.log(0.3) + stats.norm.logpdf(x), np.log(0.7) + stats.norm.logpdf(x, scale=0.1))

    z = np.linspace(-12, 12, 20_001)  # the trapezoid rule, which is exact enough for smooth functions
    x = m[:, None].double().numpy() + s[:, None].double().sqrt().numpy() * z
    log_p = stats.norm.logpdf(z) - 0.5 * np.log(s[:, None].double().numpy())
    exact = (stats.norm.pdf(z) * (log_p - log_density(x))).sum(1) * (z[1] - z[0])
    assert (bound.numpy() >= exact * (1 - 1e-6)).all()
    assert (bound.numpy() <= exact + 1.1).all()
    single = GaussianScaleMixture([1.0], [2.0])
    torch.testing.assert_close(kl(Gaussian(m, s), single), kl(Gaussian(m, s), Gaussian(0.0, 2.0)))
    assert kl(Gaussian(torch.zeros(2, 3), torch.ones(3)), prior).shape == (2, 3)
    x = np.array([-2.0, 0.0, 0.3])
    np.testing.assert_allclose(prior.log_prob(torch.tensor(x)), log_density(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("weights", "variances", "message"),
    [
        ([0.5, 0.4], [1.0, 2.0], "weights with sum 1, got 0.9"),
        ([1.5, -0.5], [1.0, 2.0], "weights ≥ 0, got -0.5"),
        ([0.5, 0.5], [1.0, 0.0], "finite variances > 0, got 0"),
        ([0.5, 0.5], [1.0], r"one shape \(K,\), one entry per component, got \(2,\) and \(1,\)"),
    ],
)
def test_scale_mixture_says_what_is_wrong(weights, variances, message):
    with pytest.raises(ValueError, match=message):
        GaussianScaleMixture(weights, variances)


def test_scale_mixture_wants_floating_point():
    with pytest.raises(TypeError, match=r"weights must be a floating-point tensor, got torch\.int64"):
        GaussianScaleMixture(torch.tensor([1]), torch.tensor([1.0]))


def test_edges():
    assert kl(Poisson(0.0), Poisson(2.0)) == 2
    assert kl(Poisson(0.0), Poisson(0.0)) == 0
    assert kl(Poisson(1.0), Poisson(0.0)) == torch.inf
    assert kl(families.Bernoulli(1.0), families.Bernoulli(0.5)) == pytest.approx(np.log(2))
    assert kl(Pareto(2.0, 1.0), Pareto(2.0, 1.5)) == torch.inf
    assert kl(Gaussian(0.0, 0.0), Gaussian(0.0, 1.0)) == torch.inf
    c, c0 = torch.zeros((), requires_grad=True), torch.ones((), requires_grad=True)
    kl(Poisson(c), Poisson(c0)).backward()
    assert c.grad.isfinite()
    assert c0.grad == 1


def test_errors():
    with pytest.raises(ValueError, match=r"negative binomials expects n with difference 0, got 1\. Use one known n"):
        kl(NegativeBinomial(1.0, 0.5), NegativeBinomial(2.0, 0.5))
    with pytest.raises(TypeError, match=r"no formula for Poisson ‖ Gaussian\. It knows Gaussian ‖ Gaussian, .* own"):
        kl(Poisson(1.0), Gaussian(0.0, 1.0))


def test_half_precision_is_computed_in_float32():
    p, q = Gamma(300.0, 2.0), Gamma(301.0, 2.0)
    p16, q16 = p.to(torch.bfloat16), q.to(torch.bfloat16)
    assert kl(p16, q16).dtype == torch.bfloat16
    torch.testing.assert_close(kl(p16, q16), kl(p16.to(torch.float32), q16.to(torch.float32)).bfloat16())


def test_compile_and_vmap():
    c, d = torch.rand(4) + 1, torch.rand(4) + 1
    prior = GaussianScaleMixture([0.5, 0.5], [1.0, 0.1])

    def total(c, d):
        n = torch.full_like(c, 3.0)
        counts = kl(NegativeBinomial.unchecked(n, c / 4), NegativeBinomial.unchecked(n, d / 4))
        return kl(Gamma(c, d), Gaussian(0.0, 1.0)) + kl(Gamma(c, d), Gamma(d, c)) + kl(Gaussian(c, d), prior) + counts

    torch.testing.assert_close(torch.compile(total, fullgraph=True, backend="eager")(c, d), total(c, d))
    torch.testing.assert_close(torch.func.vmap(total)(c, d), total(c, d))


logarithm = st.floats(-3, 3).map(lambda e: 10.0**e)


@settings(max_examples=80, deadline=None)
@given(a=logarithm, b=logarithm, c=logarithm, d=logarithm)
def test_kl_is_never_negative(a, b, c, d):
    for family in (families.Gamma, families.Beta, families.InverseGaussian, families.InverseGamma, families.Gaussian):
        for left, right in (((a, b), (c, d)), ((a, b), (a * (1 + 1e-4), b)), ((a, b), (a, b))):
            divergence = kl(family(*left), family(*right))
            assert divergence >= 0
            assert divergence.isfinite()
    for family in (families.Poisson, families.Rayleigh, families.Pareto, families.Weibull):
        assert kl(family(a), family(b)) >= 0
