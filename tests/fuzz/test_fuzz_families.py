"""Families at every member of their domain: from the smallest denormal number to the largest of each type.

Nothing is NaN, infinite only where it is so in mathematics, and nothing aborts or hangs. Where mpmath or a closed form
of scipy gives the value, it is compared.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy import stats
from support import cases
from support.fuzzing import generator, rounds
from torch.distributions import constraints

from torchnpn import families
from torchnpn.families import checks, kl
from torchnpn.moments import Moments

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
MEMBERS = 250  # in one tensor
every_case = pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.name)
every_type = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[6:])


def smallest(dtype):
    return torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps


def positive(rng, n, dtype):
    """Positive numbers of the type: half of them of any size, half of ordinary size, with the ends among them."""
    limits = torch.finfo(dtype)
    low, high = np.log10(smallest(dtype)), np.log10(limits.max)
    exponents = np.where(rng.random(n) < 0.5, rng.uniform(low, high, n), rng.uniform(max(low, -4), min(high, 4), n))
    x = torch.tensor(10.0**exponents).clamp(smallest(dtype), limits.max)
    ends = torch.tensor([smallest(dtype), limits.smallest_normal, limits.max, 1.0, 2.0, 0.5], dtype=torch.float64)
    chosen = torch.tensor(rng.integers(0, 60, n))
    x = torch.where(chosen < len(ends), ends[chosen.clamp_max(len(ends) - 1)], x)
    return x.to(dtype).clamp(smallest(dtype), limits.max)


def unit(rng, n, dtype):
    """Numbers in [0, 1], with both ends, and close to both."""
    tiny, near_one = positive(rng, n, dtype).clamp_max(1), 1 - positive(rng, n, dtype).clamp_max(1)
    kind = torch.tensor(rng.integers(0, 4, n))
    x = torch.where(kind == 0, tiny, torch.where(kind == 1, near_one, torch.tensor(rng.random(n)).to(dtype)))
    return torch.where(torch.tensor(rng.random(n) < 0.05), torch.tensor(rng.integers(0, 2, n)).to(dtype), x)


def real(rng, n, dtype):
    sign = torch.tensor(rng.choice([-1, 0, 1], n, p=[0.45, 0.1, 0.45])).to(dtype)
    return sign * positive(rng, n, dtype)


def parameter(domain, rng, n, dtype):
    if domain is checks.REAL:
        return real(rng, n, dtype)
    if domain is checks.POSITIVE:
        return positive(rng, n, dtype)
    if domain is checks.NONNEGATIVE:
        return real(rng, n, dtype).abs()
    x = unit(rng, n, dtype)
    return x if domain is checks.PROBABILITY else torch.where(x < 1, x, 0.5)


def members(case, rng, n, dtype):
    return case.family(*(parameter(domain, rng, n, dtype) for domain in case.family.domain))


def values(case, rng, member):
    """Points of the support, some of them where the member has its mass, some outside."""
    n, dtype = len(member.mean), member.dtype
    if case.name == "bernoulli":
        return torch.tensor(rng.integers(0, 2, n)).to(dtype)
    if case.family.support is constraints.unit_interval:
        y = unit(rng, n, dtype)
    elif case.family.support is constraints.real:
        y = real(rng, n, dtype)
    else:
        y = positive(rng, n, dtype)
    typical = member.quantile(torch.tensor(rng.random(n)))
    y = torch.where(torch.tensor(rng.random(n) < 0.6), typical, y)
    return torch.floor(y) if case.family.support.is_discrete else y


def in_support(case, y):
    if case.family.support is constraints.real:
        return y.isfinite()
    if case.family.support.is_discrete:
        return (y >= 0) & (y == y.floor()) & y.isfinite()
    return (y >= 0) & y.isfinite() & (y <= (1 if case.family.support is constraints.unit_interval else torch.inf))


def show(mask, member, *others):
    """The first offenders, for the message of an assertion."""
    rows = mask.nonzero().flatten()[:3].tolist()
    return [(tuple(v[i].item() for v in vars(member).values()), *(o[i].item() for o in others)) for i in rows]


def assert_none(mask, member, *others):
    assert not mask.any(), show(mask, member, *others)


@every_case
@every_type
def test_every_method_is_sound(case, dtype, record_property):
    rng, inputs = generator(f"families {case.name} {dtype}"), 0
    for _ in range(rounds(2)):
        member = members(case, rng, MEMBERS, dtype)
        check_moments(case, member)
        y = values(case, rng, member)
        check_densities(case, member, y)
        check_distribution(case, rng, member, y)
        check_activation(rng, member)
        inputs += 12 * MEMBERS
    record_property("inputs", inputs)


def check_moments(case, member):
    mean, variance = member.moments
    first = next(iter(vars(member).values())).double()
    heavy = case.name in ("pareto", "inverse_gamma")  # of a tail index up to 1 and 2 the moments are infinite
    assert_none(mean.isinf() != (first <= 1) & heavy, member, mean)
    assert_none(variance.isinf() != (first <= 2) & heavy, member, variance)
    assert_none(mean.isnan() | variance.isnan() | (variance < 0), member, mean, variance)
    for eta in member.natural:
        assert_none(eta.isnan().expand(mean.shape), member)


def check_densities(case, member, y):
    log_prob = member.log_prob(y)
    assert log_prob.dtype == member.dtype
    assert_none(log_prob.isnan(), member, y, log_prob)
    if case.name not in ("gaussian", "beta"):
        assert_none(log_prob == torch.inf, member, y, log_prob)
    if case.name in ("gamma", "inverse_gamma", "weibull", "rayleigh", "inverse_gaussian", "gumbel"):
        assert_none((log_prob == -torch.inf) & ((y > 0) | (case.name == "gumbel")) & y.isfinite(), member, y, log_prob)


def check_distribution(case, rng, member, y):
    below = member.cdf(y)
    assert_none(~((below >= 0) & (below <= 1)), member, y, below)
    further = member.cdf(torch.where(y > 0, 2 * y, y + 1).clamp_max(torch.finfo(y.dtype).max))
    assert_none(further < below - 1e-6, member, y, below, further)
    q = torch.tensor(rng.choice([1e-300, 1e-6, 0.3, 0.5, 0.9, 1 - 1e-9], len(y)))
    at = member.quantile(q)
    assert_none(~in_support(case, at), member, q, at)
    slack = 1e-12 * at.double().abs()  # a count of 1e158 has no digits for its spread
    assert_none(member.quantile(torch.sqrt(q)).double() < at.double() - slack, member, q, at)
    least = member.quantile(0.0)
    if case.family.support is not constraints.real:
        assert_none(~(least >= 0), member, least)
    assert not member.quantile(1.0).isnan().any()
    draws = member.sample(3, torch.Generator().manual_seed(int(rng.integers(2**32))))
    for draw in draws:
        assert_none(~in_support(case, draw), member, draw)


def check_activation(rng, member):
    t = 10.0 ** (rng.uniform(-2, 2) if rng.random() < 0.5 else rng.uniform(-12, 300))
    for tau in (t, 1.0):
        delta, gap = member.log_mean_exp(tau), member.log_mean_exp_gap(tau)
        assert_none(~delta.isfinite(), member, delta)
        assert_none(~gap.isfinite() | (gap < 0), member, gap)
        if not isinstance(member, (families.Gaussian, families.LogNormal)):  # whose u(x) takes any sign
            assert_none(delta > 1e-12, member, delta)


@every_case
@every_type
def test_divergences_are_sound(case, dtype, record_property):
    rng, inputs = generator(f"divergences {case.name} {dtype}"), 0
    for _ in range(rounds(3)):
        p, q = (members(case, rng, MEMBERS, dtype) for _ in range(2))
        if case.name == "negative_binomial":
            q = families.NegativeBinomial(p.n, q.p)
        divergence, own = kl(p, q), kl(p, p)
        assert divergence.dtype == dtype
        assert_none(~(divergence >= 0), p, divergence)
        assert_none(~(own.abs() <= 1e-6), p, own)
        if case.name not in ("gaussian", "poisson", "bernoulli", "negative_binomial", "pareto"):
            assert_none(divergence.isinf(), p, divergence)
        inputs += 2 * MEMBERS
    record_property("inputs", inputs)


@every_case
@every_type
def test_gradients_of_densities_and_divergences_are_finite(case, dtype, record_property):
    rng, inputs = generator(f"gradients {case.name} {dtype}"), 0
    for _ in range(rounds(2)):
        p, q = (members(case, rng, MEMBERS, dtype) for _ in range(2))
        if case.name == "negative_binomial":
            q = families.NegativeBinomial(p.n, q.p)
        y = torch.stack([values(case, rng, p) for _ in range(2)])  # two for each member, whose gradients add up
        leaves = [tensor.requires_grad_() for tensor in (*p._tensors(), *q._tensors(), y)]
        for result in (p.log_prob(y), kl(p, q)):
            ones = torch.ones_like(result)
            for gradient in torch.autograd.grad(result, leaves, ones, allow_unused=True, materialize_grads=True):
                assert gradient.isfinite().all()
        inputs += 4 * MEMBERS
    record_property("inputs", inputs)


def test_gradients_of_a_divergence_of_far_probabilities_are_right():
    p = torch.tensor(2.7e-31, requires_grad=True)
    kl(families.Bernoulli(p), families.Bernoulli(torch.tensor(0.9))).backward()
    assert float(p.grad) == pytest.approx(np.log(2.7e-31 / 0.9) - np.log(1 / 0.1), rel=1e-5)


@every_case
@every_type
def test_moments_lead_to_a_member_or_an_error(case, dtype, record_property):
    rng = generator(f"from moments {case.name} {dtype}")
    for _ in range(rounds(40)):
        mean = real(rng, 1, dtype) if case.family.support is constraints.real else positive(rng, 1, dtype)
        variance = parameter(checks.NONNEGATIVE, rng, 1, dtype)
        known = {name: float(positive(rng, 1, dtype)) for name in case.known}
        try:
            member = case.family.from_moments(Moments(mean, variance), **known)
        except ValueError:
            continue
        if case.family.keeps_mean and case.name != "gumbel":
            np.testing.assert_allclose(member.mean.double(), mean.double(), rtol=0.11)
    ordinary = case.member.to(dtype)
    again = case.family.from_moments(ordinary.moments, **case.known_of(ordinary))
    np.testing.assert_allclose(again.mean.double(), ordinary.mean.double(), rtol=20 * torch.finfo(dtype).eps)
    record_property("inputs", rounds(40))


# Values --------------------------------------------------------------------------------------------------------------


def double(*values):
    return [torch.tensor(np.asarray(value), dtype=torch.float64) for value in values]


def wide(rng, n, low=-300, high=300):
    """Half of them of any size, half of ordinary size."""
    return 10.0 ** np.where(rng.random(n) < 0.5, rng.uniform(low, high, n), rng.uniform(-3, 8, n))


def _log_beta(a, b):
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


DENSITIES = {
    "gamma": lambda y, c, d: c * mp.log(d) - mp.loggamma(c) + (c - 1) * mp.log(y) - d * y,
    "inverse_gamma": lambda y, a, b: a * mp.log(b) - mp.loggamma(a) - (a + 1) * mp.log(y) - b / y,
    "beta": lambda y, c, d: (c - 1) * mp.log(y) + (d - 1) * mp.log(1 - y) - _log_beta(c, d),
    "poisson": lambda y, c: y * mp.log(c) - c - mp.loggamma(y + 1),
    "negative_binomial": lambda y, n, p: (
        mp.loggamma(n + y) - mp.loggamma(n) - mp.loggamma(y + 1) + y * mp.log(p) + n * mp.log(1 - p)
    ),
    "inverse_gaussian": lambda y, m, a: mp.log(a / (2 * mp.pi * y**3)) / 2 - a * (y - m) ** 2 / (2 * m * m * y),
    "rayleigh": lambda y, s: mp.log(y / s) - y * y / (2 * s),
    "pareto": lambda y, a, x: mp.log(a / y) - a * mp.log(y / x),
    "gaussian": lambda y, m, s: -((y - m) ** 2) / (2 * s) - mp.log(2 * mp.pi * s) / 2,
}


@pytest.mark.parametrize("name", DENSITIES)
def test_log_densities_match_textbooks_at_400_digits(name, record_property):
    case, rng, n = next(case for case in cases.ALL if case.name == name), generator(f"densities {name}"), rounds(60)
    parameters = [wide(rng, n, -200, 200) for _ in case.family.domain]
    if name == "negative_binomial":
        parameters[1] = np.where(rng.random(n) < 0.5, rng.uniform(0, 1, n), 10.0 ** rng.uniform(-200, 0, n))
    y = np.floor(wide(rng, n, 0, 15)) if case.family.support.is_discrete else wide(rng, n, -200, 200)
    y = rng.uniform(0, 1, n) if name == "beta" else np.maximum(y, parameters[-1]) if name == "pareto" else y
    ours = case.family(*double(*parameters)).log_prob(*double(y)).tolist()
    with mp.workdps(400):
        for found, at, *member in zip(ours, y, *parameters, strict=True):
            exact = DENSITIES[name](*(mp.mpf(float(v)) for v in (at, *member)))
            exact = max(min(exact, mp.mpf(np.finfo(float).max)), -mp.mpf(np.finfo(float).max))
            assert abs(found - exact) <= 1e-11 * (1 + abs(exact)), (member, at, found, float(exact))
    record_property("inputs", n)


@pytest.mark.parametrize("t", [1e-12, 1e-3, 0.5, 4.0, 15.9, 16.0, 33.3, 1e3, 1e7, 1e12, 1e100, 1e300])
def test_powers_of_beta_variables_take_bounded_work(t, record_property):
    """log E x^t and its gap, to nine digits, for any exponent: none of them is counted up to."""
    rng, n = generator(f"beta {t}"), rounds(12)
    c, d = wide(rng, n, -100, 100), wide(rng, n, -100, 100)
    member = families.Beta(*double(c, d))
    with mp.workdps(700):
        rows = zip(c, d, member.log_mean_exp(t).tolist(), member.log_mean_exp_gap(t).tolist(), strict=True)
        for c_, d_, once, gap in rows:
            a, b, tau = mp.mpf(c_), mp.mpf(d_), mp.mpf(t)
            exact = [_log_beta(a + k * tau, b) - _log_beta(a, b) for k in (1, 2)]
            assert abs(once - exact[0]) <= 1e-9 * abs(exact[0]) + 1e-300
            assert abs(gap - (exact[1] - 2 * exact[0])) <= 1e-9 * abs(exact[1] - 2 * exact[0]) + 1e-290
    record_property("inputs", n)


@pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.name)
def test_scores_of_any_member_are_finite(case, record_property):
    """The CRPS of any finite number under any member, closed form or not."""
    rng, n = generator(f"crps {case.name}"), 500
    for _ in range(rounds(2)):
        member = members(case, rng, n, torch.float64)
        y = values(case, rng, member)
        y = torch.where(y.isfinite() & (member.support.check(y) | ~torch.tensor(member.support.is_discrete)), y, 0.0)
        score = member.crps(y)
        wrong = ~score.isfinite() | (score < 0)
        assert not wrong.any(), [member[wrong][0], y[wrong][0], score[wrong][0]]
    record_property("inputs", rounds(2) * n)


TWINS = {  # distribution functions that scipy is known to get right
    "gamma": lambda c, d: stats.gamma(c, scale=1 / d),
    "beta": stats.beta,
    "poisson": stats.poisson,
    "negative_binomial": lambda n, p: stats.nbinom(n, 1 - p),
    "inverse_gaussian": lambda m, a: stats.invgauss(m / a, scale=a),
    "weibull": lambda lam, k: stats.weibull_min(k, scale=lam),
}


@pytest.mark.parametrize("name", TWINS)
def test_quantiles_invert_scipys_distribution_functions(name, record_property):
    case, rng, n = next(case for case in cases.ALL if case.name == name), generator(f"quantiles {name}"), rounds(300)
    parameters = [10.0 ** rng.uniform(-1, 4, n) for _ in case.family.domain]
    if name == "negative_binomial":
        parameters[1] = rng.uniform(0.01, 0.99, n)
    if name == "inverse_gaussian":
        parameters[1] = parameters[0] * 10.0 ** rng.uniform(-1, 2, n)
    q = rng.choice([1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6], n)
    twin, y = TWINS[name](*parameters), case.family(*double(*parameters)).quantile(*double(q)).numpy()
    np.testing.assert_allclose(case.family(*double(*parameters)).cdf(*double(y)), twin.cdf(y), rtol=1e-8)
    if case.family.support.is_discrete:
        assert (twin.cdf(y) >= q * (1 - 1e-9)).all() and (twin.cdf(y - 1) < q * (1 + 1e-9)).all()
    else:
        below, above = (twin.cdf(np.nextafter(y, end)) for end in (0.0, np.inf))  # 1 - 1e-17 is 1
        assert (below <= q * (1 + 1e-7)).all() and (above >= q * (1 - 1e-7)).all()
    record_property("inputs", n)


def test_what_once_aborted_or_hung():
    """Each came from a user: scipy's nbinom.ppf ended the process, or never returned for 9 of 220 parameter sets."""
    huge = families.NegativeBinomial(*double(1e20, 0.5))
    np.testing.assert_allclose(huge.quantile(*double([0.01, 0.5, 0.99])), 1e20, rtol=1e-9)
    for n in 10.0 ** np.arange(-20, 21, 4):
        for p in (1e-300, 1e-9, 0.5, 1 - 1e-9, 1 - 1e-16):
            assert families.NegativeBinomial(*double(n, p)).quantile(0.5).isfinite()
    assert families.InverseGaussian(*double(1e-300, 1e300)).quantile(0.5) == 1e-300
    assert [families.Poisson(3.0).quantile(0.0), families.NegativeBinomial(3.0, 0.5).quantile(0.0)] == [0, 0]
    draws = families.Poisson(*double(1e19)).sample(1000, torch.Generator().manual_seed(0))
    assert abs(float(draws.mean() / 1e19) - 1) < 1e-9 and (draws >= 0).all()


def test_large_counts_are_drawn_from_their_limit():
    for rate in (1e11, 1e13, 1e18, 1e300):
        draws = families.Poisson(*double(rate)).sample(20_000, torch.Generator().manual_seed(1))
        z = (draws - rate) / rate**0.5
        if rate < 1e30:  # above, the type cannot tell the draws from their mean
            assert abs(float(z.mean())) < 0.05 and abs(float(z.std()) - 1) < 0.03
        assert (draws == draws.floor()).all() and draws.isfinite().all()
