"""The continuous ranked probability score of every family, against its definition by quadrature with scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from support import cases

from torchnpn import families
from torchnpn.families import ExponentialFamily

RNG = np.random.default_rng(0)


def crps_by_quadrature(distribution, y):
    """∫ (F(x) - 1{y ≤ x})² dx, in pieces between quantiles."""
    levels = np.concatenate([10.0 ** -np.arange(15, 1, -2.0), np.linspace(0.02, 0.98, 25)])
    ends = np.unique([*distribution.ppf(levels), *distribution.isf(levels), y])
    square = lambda a: (lambda x: distribution.sf(x) ** 2) if a >= y else (lambda x: distribution.cdf(x) ** 2)
    return sum(integrate.quad(square(a), a, b, epsabs=0, epsrel=1e-10)[0] for a, b in itertools.pairwise(ends))


def crps_by_summation(distribution, y):
    """Σ_k (F(k) - 1{y ≤ k})² over all counts of any weight."""
    p = distribution.pmf(k := np.arange(0, max(y, distribution.isf(1e-15)) + 60))
    below, above = np.cumsum(p), np.append(np.cumsum(p[::-1])[::-1], 0)[1:]
    return np.sum(np.where(k < y, below, above) ** 2)


def check(member, distribution, targets, rtol):
    is_count = hasattr(distribution.dist, "pmf")
    expected = [(crps_by_summation if is_count else crps_by_quadrature)(distribution, y) for y in targets]
    np.testing.assert_allclose(member.crps(torch.tensor(targets)), expected, rtol=rtol)


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")  # asked for more digits than the test needs
@pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.name)
def test_every_family_has_the_score_of_its_definition(case):
    targets = np.unique(case.scipy.ppf([0.001, 0.2, 0.5, 0.9, 0.9999]))
    check(case.member, case.scipy, targets, 2e-7)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize(
    ("family", "twin", "parameters"),
    [
        (families.Gamma, lambda c, d: stats.gamma(c, scale=1 / d), [(2, 1), (0.3, 5), (400, 2), (1e6, 1e6)]),
        (families.Beta, stats.beta, [(2, 3), (0.5, 0.5), (40, 2), (300, 400), (1e5, 3e5)]),
        (
            families.LogNormal,
            lambda m, s: stats.lognorm(s**0.5, scale=np.exp(m)),
            [(0, 1e-6), (3, 0.01), (-2, 1), (1, 9)],
        ),
    ],
    ids=["gamma", "beta", "log_normal"],
)
def test_closed_forms_match_quadrature(family, twin, parameters):
    for first, second in parameters:
        distribution = twin(first, second)
        member = family(*(torch.tensor(x, dtype=torch.float64) for x in (first, second)))
        check(member, distribution, distribution.ppf([0.001, 0.2, 0.5, 0.9, 0.9999]), 2e-7)


@pytest.mark.parametrize(
    ("n", "p"), [(2, 0.5), (0.3, 0.9), (0.01, 0.99), (20, 0.3), (7, 1e-3), (1e3, 0.01), (50, 0.99), (300, 0.97)]
)
def test_negative_binomial_matches_summation(n, p):
    distribution = stats.nbinom(n, 1 - p)
    check(negative_binomial(n, p), distribution, np.unique(distribution.ppf([0.01, 0.5, 0.9, 0.9999])), 1e-10)


@pytest.mark.parametrize("mean", [0.01, 5.0, 3e4])
@pytest.mark.parametrize("n", [1e8, 1e12, 1e30])
def test_nearly_poisson_counts(mean, n):
    """The distance to Poisson is about mean/n of the score; 1e8 is what `likelihoods.PoissonCounts` predicts."""
    poisson = stats.poisson(mean)
    targets = np.unique(poisson.ppf([0.01, 0.5, 0.9, 0.9999]))
    check(negative_binomial(n, mean / (n + mean)), poisson, targets, 1e-8 + mean / n)
    check(families.Poisson(torch.tensor(mean, dtype=torch.float64)), poisson, targets, 1e-8)


def test_large_counts_have_the_score_of_their_gamma_rate():
    """For a mean of 10⁹ the counts are their rates, gamma(n, n/mean), to one part in 10⁸."""
    n, mean = 4.0, 1e9
    y = torch.tensor(np.round(stats.gamma(n, scale=mean / n).ppf([0.05, 0.5, 0.99])))
    rates = families.Gamma(torch.tensor(n, dtype=torch.float64), torch.tensor(n / mean, dtype=torch.float64))
    np.testing.assert_allclose(negative_binomial(n, mean / (n + mean)).crps(y), rates.crps(y), rtol=1e-7)


def test_no_counts_score_the_count():
    assert negative_binomial(2.0, 0.0).crps(torch.tensor([0.0, 3.0])).tolist() == [0, 3]
    assert families.Poisson(0.0).crps(torch.tensor([0.0, 3.0])).tolist() == [0, 3]


def test_points_score_the_distance():
    assert families.Gaussian(1.0, 0.0).crps(torch.tensor([-1.0, 1.0, 4.0])).tolist() == [2, 0, 3]


@pytest.mark.parametrize("name", ["gamma", "beta", "log_normal", "weibull", "inverse_gaussian"])
def test_the_score_grows_by_the_distance_outside_the_support(name):
    member = next(case for case in cases.ALL if case.name == name).member
    far, end = member.crps(torch.tensor([-2.0, 0.0])).tolist()
    assert far == pytest.approx(end + 2, rel=1e-9)


def test_beta_above_one():
    far, end = families.Beta(3.0, 2.0).crps(torch.tensor([1.5, 1.0])).tolist()
    assert far == pytest.approx(end + 0.5, rel=1e-6)


def test_shapes_are_kept_over_many_rows():
    p = torch.tensor(RNG.uniform(0.1, 0.9, (5000, 2)))
    whole = families.NegativeBinomial(torch.tensor(3.0, dtype=torch.float64), p).crps(torch.ones(5000, 2))
    assert whole.shape == (5000, 2)
    one = families.NegativeBinomial(torch.tensor(3.0, dtype=torch.float64), p[4567]).crps(1.0)
    np.testing.assert_allclose(whole[4567], one, rtol=1e-13)


def test_counts_without_a_closed_form_are_summed_up():
    """The general sum, against the closed form, also where it takes blocks of counts."""
    general = ExponentialFamily._crps
    for mean, rtol in ((3.0, 1e-9), (2e6, 1e-4)):
        member = families.Poisson(torch.tensor(mean, dtype=torch.float64))
        y = np.round(np.array([mean, 0.9 * mean, mean + 3 * mean**0.5]))
        np.testing.assert_allclose(general(member, y), member._crps(y), rtol=rtol)


@pytest.mark.parametrize(
    ("member", "y", "message"),
    [
        (families.Gaussian(0.0, 1.0), np.inf, "Gaussian.crps expects finite numbers, got inf"),
        (families.NegativeBinomial(1.0, 0.5), 1.5, "NegativeBinomial.crps expects counts, got 1.5"),
        (families.Poisson(1.0), -1.0, "Poisson.crps expects counts, got -1"),
    ],
)
def test_what_has_no_score_is_refused(member, y, message):
    with pytest.raises(ValueError, match=message):
        member.crps(y)


def negative_binomial(n, p):
    return families.NegativeBinomial(*(torch.tensor(x, dtype=torch.float64) for x in (n, p)))
