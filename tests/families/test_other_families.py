"""Distributions that are of no exponential family, against scipy's twins: one table, the laws of every prediction."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from support.target_cases import WithZeros
from torch.utils import _pytree as pytree

from torchnpn import families
from torchnpn.families import Distribution
from torchnpn.likelihoods import Mixture, mixed

LEVELS = (1e-9, 1e-3, 0.05, 0.3, 0.5, 0.7, 0.95, 0.999, 1 - 1e-9)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


class Case(NamedTuple):
    """A batch of one variable, and its distribution by other means."""

    name: str
    member: Any
    scipy: Any  # with cdf, logpdf or logpmf, ppf, mean, var

    @property
    def is_count(self) -> bool:
        return self.member.support.is_discrete


def student_t(m: float, s: float, nu: float) -> Case:
    return Case(f"t{m, s, nu}", families.StudentT(tensor(m), tensor(s), tensor(nu)), stats.t(nu, m, s**0.5))


def with_zeros(p: float, base: families.Parametric, twin: Any) -> Case:
    return Case(f"{p}+{twin.dist.name}", families.ZeroInflated(base, tensor(p)), WithZeros(p, twin))


CASES = [
    student_t(0.5, 2.0, 1.2),
    student_t(0.5, 2.0, 2.0),
    student_t(-3.0, 1e-4, 2.7),
    student_t(7.0, 9.0, 30.0),
    student_t(0.0, 1.0, 1e7),
    with_zeros(0.4, families.NegativeBinomial(tensor(2.5), tensor(0.6)), stats.nbinom(2.5, 0.4)),
    with_zeros(0.001, families.Poisson(tensor(7.0)), stats.poisson(7.0)),
    with_zeros(0.4, families.Gamma(tensor(0.7), tensor(0.01)), stats.gamma(0.7, scale=100.0)),
    with_zeros(0.2, families.LogNormal(tensor(1.0), tensor(2.0)), stats.lognorm(2**0.5, scale=np.e)),
    with_zeros(0.0, families.Gamma(tensor(3.0), tensor(1.0)), stats.gamma(3.0)),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def around(case: Case) -> list[float]:
    return [float(case.scipy.ppf(q)) for q in LEVELS]


@every_case
def test_density_distribution_and_quantiles(case):
    assert isinstance(case.member, Distribution)
    y = around(case)
    logs = case.scipy.logpmf if case.is_count else case.scipy.logpdf
    for one in (*y, 3 * y[0] - 2 * y[1], 3 * y[-1] - 2 * y[-2]):
        if one != 0 or case.member.cdf(0.0) > 0:
            np.testing.assert_allclose(case.member.log_prob(one), logs(one), rtol=1e-10, atol=1e-8)
        np.testing.assert_allclose(case.member.cdf(one), case.scipy.cdf(one), rtol=1e-9)
    for q, one in zip(LEVELS, y, strict=True):
        np.testing.assert_allclose(case.member.quantile(q), one, rtol=1e-7, atol=1e-12)


@every_case
def test_moments(case):
    np.testing.assert_allclose(case.member.mean, case.scipy.mean())
    np.testing.assert_allclose(case.member.variance, case.scipy.var(), rtol=1e-6)


@every_case
def test_samples_have_its_distribution(case):
    draws = case.member.sample(4000, torch.Generator().manual_seed(0)).numpy()[:, 0]
    grid = np.unique(around(case))
    np.testing.assert_allclose((draws[:, None] <= grid).mean(0), case.scipy.cdf(grid), atol=4.5 * 0.5 / np.sqrt(4000))


def crps_by_definition(cdf: Callable[[Any], Any], y: float, breaks: list[float], is_count: bool) -> float:
    """∫ (F(x) - 1{y ≤ x})² dx, or the sum over counts."""
    if is_count:
        x = np.arange(max(y, *breaks) + 2)
        return float(((cdf(x) - (x >= y)) ** 2).sum())
    panels = itertools.pairwise(sorted({y, *breaks}))
    return sum(integrate.quad(lambda x: (cdf(x) - (x >= y)) ** 2, *panel, epsabs=1e-13)[0] for panel in panels)


@every_case
def test_crps(case):
    ends = [float(case.scipy.ppf(q)) for q in (1e-12, 1e-6, 1 - 1e-6, 1 - 1e-12)]
    for y in around(case)[2:-2]:
        expected = crps_by_definition(case.scipy.cdf, y, [*ends, *around(case)], case.is_count)
        np.testing.assert_allclose(case.member.crps(y), expected, rtol=1e-6)


MIXTURES = [
    families.StudentT(tensor(0.0, 1.0, -0.5)[:, None], tensor(1.0, 2.0, 0.5)[:, None], tensor(2.1, 4.0, 40.0)[:, None]),
    families.ZeroInflated(
        families.Gamma(tensor(1.5, 3.0, 2.0)[:, None], tensor(1.0, 2.0, 0.5)[:, None]), tensor(0.1, 0.5, 0.0)[:, None]
    ),
    families.ZeroInflated(
        families.NegativeBinomial(tensor(1.5, 3.0, 2e8)[:, None], tensor(0.5, 0.7, 1e-8)[:, None]),
        tensor(0.1, 0.5, 0.9)[:, None],
    ),
]


@pytest.mark.parametrize("members", MIXTURES, ids=["t", "amounts", "counts"])
def test_mixtures_of_them(members):
    is_count = members.support.is_discrete
    numbers = (0.0, 1.0, 3.0, 12.0) if is_count else (-30.0, -1.0, 0.0, 0.3, 2.0, 50.0)
    mixture = mixed(members)
    assert isinstance(mixture, Mixture) and isinstance(mixture, Distribution)
    alone = [members[k] for k in range(3)]
    np.testing.assert_allclose(mixture.mean, np.mean([one.mean.item() for one in alone]))
    for y in numbers:
        np.testing.assert_allclose(mixture.cdf(y), np.mean([one.cdf(y).item() for one in alone]), rtol=1e-12)
        density = np.mean([one.log_prob(y).exp().item() for one in alone])
        np.testing.assert_allclose(mixture.log_prob(y).exp(), density, rtol=1e-12)
        ends = [one.quantile(q).item() for one in alone for q in (1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6)]
        cdf = lambda x: mixture.cdf(torch.tensor(x, dtype=torch.float64)).numpy().reshape(np.shape(x))
        expected = crps_by_definition(cdf, y, [*ends, -min(ends)], is_count)
        np.testing.assert_allclose(mixture.crps(y), expected, rtol=1e-4)
    for q in (0.01, 0.5, 0.99):
        y = mixture.quantile(q)
        step = 1.0 if is_count else 1e-9 * max(1.0, y.abs().item())
        assert mixture.cdf(y) >= q - 1e-9 and mixture.cdf(y - step) <= q
    draws = mixture.sample(4000, torch.Generator().manual_seed(0))
    np.testing.assert_allclose((draws <= 0.3).double().mean(), mixture.cdf(0.3).item(), atol=0.04)


@every_case
def test_other_units_rows_and_pytrees(case):
    """shift + scale · x: quantiles and scores change as the numbers do, densities by the scale."""
    shift, scale = tensor(-2.0 if isinstance(case.member, families.StudentT) else 0.0), tensor(1000.0)
    if case.is_count:
        with pytest.raises(ValueError, match="cannot be shifted or scaled"):
            case.member.scaled(shift, scale)
        scale = tensor(1.0)
    other, y = case.member.scaled(shift, scale), case.member.quantile(0.7)
    for found, expected in (
        (other.mean, shift + scale * case.member.mean),
        (other.variance, scale**2 * case.member.variance),
        (other.quantile(0.2), shift + scale * case.member.quantile(0.2)),
        (other.cdf(shift + scale * y), case.member.cdf(y)),
        (other.log_prob(shift + scale * y), case.member.log_prob(y) - torch.log(scale)),
        (other.crps(shift + scale * y), scale * case.member.crps(y)),
        (case.member[[0]].mean, case.member.mean),
        (pytree.tree_map(lambda x: x, case.member).mean, case.member.mean),
    ):
        torch.testing.assert_close(found, expected)


def test_gradients():
    values = tensor(0.3), tensor(1.7), tensor(3.5)
    for value in values:
        value.requires_grad_()
    for y in (0.3, 2.0, -40.0):
        assert torch.autograd.gradcheck(lambda *v, y=y: families.StudentT.unchecked(*v).log_prob(y), values)
    for family, y in itertools.product((families.Gamma, families.NegativeBinomial), (0.0, 2.0)):
        n, q, p = (tensor(x).requires_grad_() for x in (1.7, 0.6, 0.3))

        def log_prob(n, q, p, family=family, y=y):
            return families.ZeroInflated.unchecked(family.unchecked(n, q), p).log_prob(y)

        assert torch.autograd.gradcheck(log_prob, (n, q, p))


def test_extremes():
    """Whatever the numbers: finite answers that end."""
    m, s, nu = (
        torch.tensor(axis.ravel())
        for axis in np.meshgrid([-1e300, 0, 1e-300], [1e-300, 1, 1e300], [1.000001, 2.5, 1e16, 1e300])
    )
    members = families.StudentT(m, s, nu)
    for y in (-1e308, -1e-300, 0.0, 1.0, 1e308):
        assert not members.log_prob(y).isnan().any() and not (members.log_prob(y) == torch.inf).any()
        assert ((members.cdf(y) >= 0) & (members.cdf(y) <= 1)).all()
        assert (members.crps(y) >= 0).all() and members.crps(y).isfinite().all()
    for q in (1e-300, 0.01, 0.5, 1 - 1e-16):
        assert members.quantile(q).isfinite().all()
    assert members.sample(3, torch.Generator().manual_seed(0)).isfinite().all()
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        half = families.StudentT(*(torch.tensor([x], dtype=dtype) for x in (0.5, 2.0, 3.0)))
        assert half.log_prob(1.0).dtype == half.crps(1.0).dtype == half.quantile(0.9).dtype == dtype


def test_moments_give_a_member():
    x = families.StudentT.from_moments(families.StudentT(0.5, 2.0, 4.0).moments)
    torch.testing.assert_close(x.s, torch.tensor(2.0))
    with pytest.raises(ValueError, match="nu > 2 and finite, got 1"):
        families.StudentT.from_moments(x.moments, nu=1.5)
    with pytest.raises(ValueError, match="nu > 1 and finite, got 1"):
        families.StudentT(0.0, 1.0, 1.0)


def test_zeros_beside_other_distributions():
    """Where all is zero, or nothing; what cannot be a base; and a table's worth of odd members."""
    sure = families.ZeroInflated(families.Gamma(tensor(2.0), tensor(1.0)), tensor(1.0))
    assert sure.log_prob(0.0) == 0 and sure.log_prob(1.0) == -torch.inf and sure.mean == sure.variance == 0
    assert sure.quantile(0.99) == sure.crps(0.0) == sure.sample(9, torch.Generator().manual_seed(0)).max() == 0
    none = families.ZeroInflated(families.Gamma(tensor(2.0), tensor(1.0)), tensor(0.0))
    assert none.log_prob(0.0) == -torch.inf and none.log_prob(-1.0) == -torch.inf and none.quantile(0.0) == 0
    for base in (families.Gaussian(0.0, 1.0), families.Beta(1.0, 1.0), 3.0):
        with pytest.raises(TypeError, match="ZeroInflated expects a base"):
            families.ZeroInflated(base, 0.5)
    with pytest.raises(ValueError, match=r"p in \[0, 1\], got 1.5"):
        families.ZeroInflated(families.Poisson(1.0), 1.5)
    with pytest.raises(ValueError, match="broadcast"):
        families.ZeroInflated(families.Poisson(torch.ones(2)), torch.full((3,), 0.5))
    assert families.ZeroInflated(families.Poisson(torch.ones(2)), 0.5)[1].batch_shape == ()
    n, q, p = (
        torch.tensor(axis.ravel())
        for axis in np.meshgrid(
            [1e-300, 0.3, 1e15, 1e300], [1e-300, 0.5, 1 - 1e-16], [0.0, 1e-300, 0.5, 1 - 1e-16, 1.0]
        )
    )
    for base in (families.NegativeBinomial(n, q), families.Gamma(n, q)):
        members = families.ZeroInflated(base, p)
        for y in (0.0, 1.0, 1e15, 1e300):
            assert not members.log_prob(y).isnan().any() and not (members.log_prob(y) == torch.inf).any()
            assert ((members.cdf(y) >= 0) & (members.cdf(y) <= 1)).all()
            assert (members.crps(y) >= 0).all() and members.crps(y).isfinite().all()
        for level in (1e-300, 0.01, 0.5, 1 - 1e-16):
            assert members.quantile(level).isfinite().all()
        assert members.mean.isfinite().all() and members.variance.isfinite().all()
