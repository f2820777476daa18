"""Laws of every family against scipy, which shares no code with us."""

from __future__ import annotations

import warnings

import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support import cases

from torchnpn import families
from torchnpn.families import ExponentialFamily
from torchnpn.families.natural import derivatives
from torchnpn.maps.saturating import saturating
from torchnpn.moments import Moments

by_name = pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.name)
ONE = torch.ones(3, dtype=torch.float64)


def moments(mean, variance=None, dtype=torch.float64):
    variance = None if variance is None else torch.tensor(variance, dtype=dtype)
    return Moments(torch.tensor(mean, dtype=dtype), variance)


def expectation(case, function):
    """E function(x) by quadrature or summation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quad doubts some tails; the comparison that follows decides
        if hasattr(case.scipy.dist, "pmf"):
            return case.scipy.expect(function, maxcount=10_000, tolerance=1e-14)
        low, high = case.scipy.support()
        low = max(low, -40.0)  # below, Gumbel's u(x) overflows and its density is zero
        median = case.scipy.ppf(0.5)
        parts = [(low, median), (median, high)]
        return sum(case.scipy.expect(function, lb=lb, ub=ub, epsabs=1e-13, epsrel=1e-11, limit=200) for lb, ub in parts)


# Laws ----------------------------------------------------------------------------------------------------------


@by_name
def test_moments_match_scipy(case):
    mean, variance = case.scipy.stats("mv")
    np.testing.assert_allclose(case.member.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(case.member.variance, variance, rtol=1e-12)


@by_name
def test_gradient_of_log_partition_is_expected_statistic(case):
    member = case.member
    for i, u in enumerate(case.u):
        first, second = derivatives(member.log_partition, member.natural, i)
        mean = expectation(case, u)
        np.testing.assert_allclose(first, mean, rtol=1e-7)
        np.testing.assert_allclose(second, expectation(case, lambda x, u=u, m=mean: (u(x) - m) ** 2), rtol=1e-6)


@by_name
def test_natural_form_is_the_density(case):
    """log p(x) - η·u(x) + A(η) = log h(x) does not depend on the parameters."""
    other = case.family(*(1.1 * v if n not in (*case.known, "n") else v for n, v in vars(case.member).items()))
    y = torch.tensor(case.scipy.ppf([0.1, 0.4, 0.8]))
    log_h = []
    for member in (case.member, other):
        inner = sum(eta * torch.as_tensor(u(y.numpy())) for eta, u in zip(member.natural, case.u, strict=True))
        log_h.append(member.log_prob(y) - inner + member.log_partition(*member.natural))
    np.testing.assert_allclose(*log_h, rtol=1e-9, atol=1e-9)


@by_name
@pytest.mark.parametrize("t", [0.1, 1.0, 4.0])
def test_log_mean_exp_is_the_difference_of_log_partitions(case, t):
    """The families' own forms against A(η - t e) - A(η) of the base class; beta's t counts the other way."""
    member, sign = case.member, -1 if case.name == "beta" else 1
    base = super(case.family, member)
    once, twice = base._log_mean_exp(sign * t), base._log_mean_exp(sign * 2 * t)
    np.testing.assert_allclose(member.log_mean_exp(t), once, rtol=1e-11)
    np.testing.assert_allclose(member.log_mean_exp_gap(t), twice - 2 * once, rtol=1e-9)
    np.testing.assert_allclose(member.log_mean_exp_gap(t), base._log_mean_exp_gap(sign * t), rtol=1e-9)


@by_name
def test_from_moments_inverts_moments(case):
    for dtype, rtol in ((torch.float64, 1e-10), (torch.float32, 3e-6)):
        member = case.member.to(dtype)
        again = case.family.from_moments(member.moments, **case.known_of(member))
        assert again.dtype == dtype
        if case.name == "rayleigh":  # keeps E x², which the two moments determine
            np.testing.assert_allclose(again.mean, member.mean, rtol=rtol)
        for name in case.family.__match_args__:
            np.testing.assert_allclose(getattr(again, name), getattr(member, name), rtol=rtol)


@pytest.mark.parametrize("name", ["gamma", "beta", "inverse_gaussian", "inverse_gamma", "gaussian"])
def test_round_trip_over_wide_grids(name):
    case = next(case for case in cases.ALL if case.name == name)
    member = case.grid(torch.float64)
    proper = member.variance < 1e7 * member.mean**2  # far from what `limits` cuts off, and finite
    x = Moments(member.mean[proper], member.variance[proper])
    again = case.family.from_moments(x).moments
    np.testing.assert_allclose(again.mean, x.mean, rtol=1e-9)
    np.testing.assert_allclose(again.variance, x.variance, rtol=1e-6)


@pytest.mark.parametrize("case", [c for c in cases.ALL if not c.both_moments], ids=lambda case: case.name)
def test_projection_keeps_the_mean(case):
    x, member = moments(2.5, 0.3), case.member
    again = case.family.from_moments(x, **case.known_of(member))
    if case.name == "rayleigh":
        np.testing.assert_allclose(again.variance + again.mean**2, 2.5**2 + 0.3, rtol=1e-12)
    else:
        np.testing.assert_allclose(again.mean, 2.5, rtol=1e-12)


@by_name
def test_log_prob_cdf_quantile_match_scipy(case):
    member, grid = case.member, np.array([0.01, 0.2, 0.5, 0.9, 0.999])
    y = case.scipy.ppf(grid)
    log_density = case.scipy.logpmf if hasattr(case.scipy.dist, "pmf") else case.scipy.logpdf
    np.testing.assert_allclose(member.log_prob(torch.tensor(y)), log_density(y), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(member.cdf(torch.tensor(y)), case.scipy.cdf(y), rtol=1e-12)
    np.testing.assert_allclose(member.quantile(torch.tensor(grid)), y, rtol=1e-12)
    if case.name not in ("gaussian", "gumbel"):
        assert member.log_prob(-1.0) == -torch.inf
        assert member.cdf(-1.0) == 0


@by_name
def test_log_prob_has_the_right_gradient_and_none_outside(case):
    values = [v.clone().requires_grad_() for v in vars(case.member).values()]
    y = torch.tensor(case.scipy.ppf([0.2, 0.6, 0.9]))
    assert torch.autograd.gradcheck(lambda *v: case.family.unchecked(*v).log_prob(y), values)
    case.family.unchecked(*values).log_prob(torch.cat([y, -ONE])).nan_to_num(neginf=0.0).sum().backward()
    assert all(v.grad.isfinite().all() for v in values)


@by_name
def test_samples_have_the_moments(case):
    n, generator = 200_000, torch.Generator().manual_seed(1)
    before = torch.get_rng_state()
    draws = case.member.sample(n, generator)
    assert torch.equal(torch.get_rng_state(), before)  # the global state is untouched
    assert draws.shape == (n,)
    mean, variance, kurtosis = (float(v) for v in case.scipy.stats("mvk"))
    assert abs(draws.mean() - mean) < 5 * (variance / n) ** 0.5
    kurtosis = kurtosis if np.isfinite(kurtosis) else 100.0
    assert abs(draws.var() - variance) < 5 * variance * ((kurtosis + 2) / n) ** 0.5
    low, high = np.quantile(draws.numpy(), [0.25, 0.9])  # the law itself, where moments are noisy
    assert case.scipy.cdf(low) == pytest.approx(0.25, abs=0.01) or hasattr(case.scipy.dist, "pmf")
    assert case.scipy.cdf(high) == pytest.approx(0.9, abs=0.01) or hasattr(case.scipy.dist, "pmf")


def test_sample_without_generator_and_in_half_precision():
    member = families.Gamma(torch.ones(2, 3, dtype=torch.bfloat16), 2.0)
    torch.manual_seed(0)
    a = member.sample(4)
    torch.manual_seed(0)
    assert torch.equal(a, member.sample(4))
    assert a.shape == (4, 2, 3)
    assert a.dtype == torch.bfloat16
    assert families.InverseGaussian(torch.ones(2, 1), torch.ones(3)).sample(4).shape == (4, 2, 3)


@by_name
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_type_is_kept(case, dtype):
    member = case.member.to(dtype)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.1}[dtype]
    y = float(case.scipy.ppf(0.6))
    log_density = case.scipy.logpmf(y) if hasattr(case.scipy.dist, "pmf") else case.scipy.logpdf(y)
    for value, expected in (
        (member.mean, case.scipy.mean()),
        (member.variance, case.scipy.var()),
        (member.log_prob(y), log_density),
        (member.cdf(case.scipy.ppf(0.95)), case.scipy.cdf(case.scipy.ppf(0.95))),
        (member.log_mean_exp(1.0), case.member.log_mean_exp(1.0)),
    ):
        assert value.dtype == dtype
        np.testing.assert_allclose(value.double(), expected, rtol=tolerance)
    assert case.family.project(member.moments, **case.known_of(member)).dtype == dtype
    assert member.detach().dtype == dtype


# Edges ---------------------------------------------------------------------------------------------------------


def test_infinite_moments():
    pareto = families.Pareto(torch.tensor([0.5, 1.0, 1.5, 2.0, 3.0]))
    inverse_gamma = families.InverseGamma(torch.tensor([0.5, 1.0, 1.5, 2.0, 3.0]), 1.0)
    for member in (pareto, inverse_gamma):
        assert member.mean.isinf().tolist() == [True, True, False, False, False]
        assert member.variance.isinf().tolist() == [True, True, True, True, False]


def test_poisson_of_rate_zero():
    c = torch.zeros((), requires_grad=True)
    assert families.Poisson(c).log_prob(torch.tensor([0.0, 3.0])).tolist() == [0.0, -torch.inf]
    assert torch.autograd.grad(families.Poisson(c).log_prob(0.0), c)[0] == -1  # torch's own formula: NaN
    assert families.Poisson(c).sample(5).sum() == 0
    assert families.Poisson(2.0).log_prob(1.5) == -torch.inf


def test_poisson_kl_map():
    m, s = np.meshgrid([0.0, 1e-3, 0.1, 0.4999, 0.5, 0.51, 1.0, 30.0], [0.0, 1e-12, 1e-6, 0.01, 1.0, 50.0])
    for dtype, rtol, atol in ((torch.float64, 1e-12, 1e-150), (torch.float32, 5e-7, 1e-18)):  # atol: at m = ½, s = 0
        x = moments(m.ravel(), s.ravel(), dtype)
        c = []
        with mp.workdps(60):
            for mean, variance in zip(x.mean.tolist(), x.variance.tolist(), strict=True):
                b = 2 * mp.mpf(mean) - 1
                c.append(float((b + mp.sqrt(b**2 + 8 * mp.mpf(variance))) / 4))
        np.testing.assert_allclose(families.Poisson.from_moments_kl(x).c, c, rtol=rtol, atol=atol)
    same = torch.tensor([0.2, 3.0], dtype=torch.float64)
    np.testing.assert_allclose(families.Poisson.from_moments_kl(Moments(same, same)).c, same, rtol=1e-14)
    x = torch.tensor([[0.1, 0.7, 5.0], [0.3, 0.2, 2.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: families.Poisson.project_kl(Moments(x[0], x[1])).c, x)
    m, s = (
        torch.tensor([0.0, 0.5, 0.5, 2.0], requires_grad=True),
        torch.tensor([0.0, 0.0, 1.0, 0.0], requires_grad=True),
    )
    families.Poisson.project_kl(Moments(m, s)).c.sum().backward()
    assert m.grad.isfinite().all()
    assert s.grad.isfinite().all()
    with pytest.raises(ValueError, match="finite variance ≥ 0"):
        families.Poisson.from_moments_kl(moments(1.0, -1.0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_poisson_kl_map_at_the_largest_numbers(dtype):
    largest = torch.finfo(dtype).max
    m = torch.tensor([0.0, 1.0, -1.0, -largest, largest, -largest], dtype=dtype, requires_grad=True)
    s = torch.tensor([largest, largest, largest, 1.0, 1.0, largest], dtype=dtype, requires_grad=True)
    c = families.Poisson.project_kl(Moments(m, s)).c
    with mp.workdps(700):
        b = [2 * mp.mpf(mean) - 1 for mean in m.tolist()]
        exact = [(b + mp.sqrt(b**2 + 8 * mp.mpf(variance))) / 4 for b, variance in zip(b, s.tolist(), strict=True)]
        expected = [float(min(one, largest)) for one in exact]
    np.testing.assert_allclose(c.detach().double(), expected, rtol=4 * torch.finfo(dtype).eps, atol=1e-7)
    c.double().sum().backward()
    assert m.grad.isfinite().all()
    assert s.grad.isfinite().all()


def test_bernoulli_for_certain():
    p = torch.tensor([0.0, 1.0])
    assert families.Bernoulli(p).log_prob(torch.tensor([0.0, 1.0])).tolist() == [0.0, 0.0]
    assert families.Bernoulli(p).log_prob(torch.tensor([1.0, 0.0])).tolist() == [-torch.inf, -torch.inf]
    assert families.Bernoulli(0.3).log_prob(0.5) == -torch.inf


def test_pareto_below_its_minimum():
    member = families.Pareto(2.0, x_min=3.0)
    assert member.log_prob(2.9) == -torch.inf
    assert member.log_prob(3.0).isfinite()


def test_gaussian_point():
    point = families.Gaussian.from_moments(Moments(torch.tensor(1.0)))
    assert point.cdf(torch.tensor([0.9, 1.0])).tolist() == [0.0, 1.0]
    assert point.quantile(0.3) == 1.0


def test_negative_binomial_with_large_n_is_poisson_in_float32():
    """n = 1e6 at mean 5: a difference of two float32 log Γ would be wrong by more than 1."""
    member = families.NegativeBinomial.from_moments(moments(5.0, dtype=torch.float32), n=1e6)
    y = torch.arange(20.0)
    n, p = member.n.double().numpy(), member.p.double().numpy()
    np.testing.assert_allclose(member.log_prob(y), stats.nbinom(n, 1 - p).logpmf(y.numpy()), atol=4e-5)
    np.testing.assert_allclose(member.log_prob(y), stats.poisson(5).logpmf(y.numpy()), atol=1e-3)


@pytest.mark.parametrize("case", cases.FAMILIES, ids=lambda case: case.name)
def test_project_takes_whatever_a_network_hands_over(case):
    """Zero variance, zero and negative means, the ends of float32: finite parameters, values and gradients."""
    ends = [-1e30, -1.0, 0.0, 1e-30, 1e-10, 1e-3, 0.5, 1.0, 1 + 1e-6, 7.0, 1e5, 1e12, 1e30]
    mesh = torch.meshgrid(torch.tensor(ends), torch.tensor([0.0, 1e-35, 1e-12, 0.1, 1.0, 1e6, 1e30]), indexing="ij")
    m, s = (axis.flatten().requires_grad_() for axis in mesh)
    known = case.known_of(case.member.to(torch.float32))
    member = case.family.project(Moments(m, s), **known)
    case.family(*vars(member).values())  # within the domain
    a = saturating(member, 0.7)
    assert a.mean.isfinite().all()
    assert a.variance.isfinite().all()
    assert (a.variance >= 0).all()
    (a.mean.sum() + a.variance.sum()).backward()
    assert m.grad.isfinite().all()
    assert s.grad is None or s.grad.isfinite().all()
    assert case.family.project(Moments(m), **known).batch_shape == m.shape


# Torch's transformations ---------------------------------------------------------------------------------------


def through(case, known):
    """Moments in, member out, its moments and activation."""

    def function(mean, variance):
        member = case.family.project(Moments(mean, variance), **known)
        return member, saturating(member, 0.5), member.log_prob(mean)

    return function


@pytest.mark.slow
@by_name
def test_compile_vmap_export(case):
    known = {name: float(getattr(case.member, name)) for name in case.known}
    function = through(case, known)
    m, s = torch.tensor([0.3, 0.6, 0.7]), torch.tensor([0.02, 0.01, 0.1])
    if case.name == "pareto":
        m = m + 2
    expected = function(m, s)
    leaves = torch.utils._pytree.tree_leaves

    def same(result):
        assert isinstance(result[0], case.family)
        for a, b in zip(leaves(result), leaves(expected), strict=True):
            torch.testing.assert_close(a, b)

    same(torch.compile(function, fullgraph=True, backend="eager")(m, s))
    same(torch.func.vmap(function)(m, s))

    class Module(torch.nn.Module):
        def forward(self, member: ExponentialFamily) -> tuple:
            return member, saturating(member, 0.5), member.log_prob(m)

    for strict in (False, True):
        same(torch.export.export(Module(), (expected[0],), strict=strict).module()(expected[0]))


def test_constructor_inside_compile_and_vmap():
    def function(c, d):
        return families.Gamma(c, d).mean + families.Gamma.from_moments(Moments(c, d)).variance

    c, d = torch.rand(3) + 1, torch.rand(3) + 1
    torch.testing.assert_close(torch.compile(function, fullgraph=True, backend="eager")(c, d), function(c, d))
    torch.testing.assert_close(torch.func.vmap(function)(c, d), function(c, d))


# Properties ----------------------------------------------------------------------------------------------------

positive = st.floats(-4, 4).map(lambda e: 10.0**e)


@settings(max_examples=60, deadline=None)
@given(m=positive, v=st.floats(-4, 2).map(lambda e: 10.0**e))
def test_round_trip_of_positive_families(m, v):
    x = moments(m, v * m**2)
    for family in (families.Gamma, families.InverseGaussian, families.InverseGamma):
        again = family.from_moments(x).moments
        np.testing.assert_allclose(again.mean, x.mean, rtol=1e-9)
        np.testing.assert_allclose(again.variance, x.variance, rtol=1e-7)
    counts = families.NegativeBinomial.from_moments(Moments(x.mean, x.mean + x.variance)).moments
    np.testing.assert_allclose(counts.mean, x.mean, rtol=1e-9)
    np.testing.assert_allclose(counts.variance, x.mean + x.variance, rtol=1e-7)


@settings(max_examples=60, deadline=None)
@given(m=st.floats(1e-6, 1 - 1e-6), ratio=st.floats(1e-6, 0.999))
def test_round_trip_of_beta(m, ratio):
    x = moments(m, ratio * m * (1 - m))
    again = families.Beta.from_moments(x).moments
    np.testing.assert_allclose(again.mean, x.mean, rtol=1e-9)
    np.testing.assert_allclose(again.variance, x.variance, rtol=1e-7)
