"""Families at every member of their domain: from the smallest denormal number to the largest of each type.

Nothing is NaN, infinite only where it is so in mathematics, and nothing aborts or hangs. Where mpmath or a closed form
of scipy gives the value, it is compared.
"""

from __future__ import annotations

import cases
import numpy as np
import pytest
import torch
from fuzzing import generator, rounds
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
    assert_none(member.quantile(torch.sqrt(q)) < at, member, q, at)
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
        if not isinstance(member, families.Gaussian):
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
