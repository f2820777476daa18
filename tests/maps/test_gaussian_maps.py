"""Moment maps of a Gaussian input keep the table of bounds, in float32 and float64."""

import numpy as np
import pytest
import torch
from support import bounds, closed_forms, map_cases, reference
from support.map_cases import CONVERGENT, each, grid

from torchnpn import maps
from torchnpn.moments import Moments


def compare(case, dtype):
    """(m, s, got mean, exact mean, got variance, exact variance) where the exact moments exist and fit in dtype."""
    exact = reference.table(case.reference)
    o = grid(dtype)
    with torch.no_grad():
        a = case.map(o)
    assert a.mean.dtype == a.variance.dtype == dtype
    mean, variance = a.mean.double().numpy(), a.variance.double().numpy()
    assert not np.isnan(mean).any() and not np.isnan(variance).any()
    assert (variance >= 0).all()
    largest = float(torch.finfo(dtype).max)
    known = ~np.isnan(exact.mean)  # unknown: the jump of heaviside itself
    fits = known & (np.maximum(np.abs(exact.mean), exact.variance) < largest / 2)  # exp overflows honestly
    assert (variance[known & ~fits] > largest / 4).all()
    columns = (o.mean.detach().double().numpy(), o.variance.detach().double().numpy())
    columns += (mean, exact.mean, variance, exact.variance)
    return tuple(column[fits] for column in columns)


def excess(case, dtype, bound):
    """Largest |Δmean| and |Δvariance| in units of their bounds, each with the point where it is: ≤ 1 is good."""
    m, s, mean, exact_mean, variance, exact_variance = compare(case, dtype)
    allowed_mean = bound.a * (1 + np.abs(exact_mean))
    allowed_variance = bound.b * exact_variance + bound.c * bounds.SCALES[bound.scale](exact_mean, s)
    for name, got, want, allowed in (
        ("mean", mean, exact_mean, allowed_mean),
        ("variance", variance, exact_variance, allowed_variance),
    ):
        error = np.abs(got - want)
        ratio = np.divide(error, allowed, out=np.where(error > 0, np.inf, 0.0), where=allowed > 0)
        i = ratio.argmax()
        yield ratio[i], f"{case.name} {name}: m={m[i]} s={s[i]} got {got[i]} expected {want[i]}"


@each([case for case in CONVERGENT if case.name in bounds.GAUSSIAN], fast=("relu", "sigmoid", "tanh"))
def test_float32_keeps_its_row(case):
    for ratio, where in excess(case, torch.float32, bounds.GAUSSIAN[case.name]):
        assert ratio <= 1, f"{ratio:.3g} times the bound, {where}"


@each([case for case in CONVERGENT if case.name in bounds.GAUSSIAN_FLOAT64], fast=("relu", "gelu", "exp"))
def test_float64_keeps_its_row(case):
    for ratio, where in excess(case, torch.float64, bounds.GAUSSIAN_FLOAT64[case.name]):
        assert ratio <= 1, f"{ratio:.3g} times the bound, {where}"


def test_every_map_has_a_row():
    assert {case.name for case in CONVERGENT} == set(bounds.GAUSSIAN)
    assert {name for name in bounds.GAUSSIAN if not name.startswith("cheap")} == set(bounds.GAUSSIAN_FLOAT64)


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_float64_takes_the_accurate_form(name):
    m, s = torch.linspace(-30, 30, 61, dtype=torch.float64)[:, None], torch.logspace(-6, 4, 21, dtype=torch.float64)
    o = Moments(*torch.broadcast_tensors(m, s))
    for got, accurate in zip(getattr(maps, name)(o), getattr(maps.accurate, name)(o), strict=True):
        assert torch.equal(got, accurate)


@each(CONVERGENT)
def test_zero_variance_is_the_plain_function(case):
    m = torch.tensor(reference.GRID_M, dtype=torch.float32)
    if case.kind == "jump":
        m = m[m != 0]
    a = case.map(Moments(m, torch.zeros_like(m)))
    exact = case.twin(m.double())  # in float32 torch's own gelu is off by 5e-7
    torch.testing.assert_close(a.mean.double(), exact, rtol=5e-7, atol=1e-7)
    assert (a.variance == 0).all()


@pytest.mark.parametrize("name", ["sigmoid", "accurate.sigmoid", "tanh", "accurate.tanh", "erf", "sin"])
def test_odd_and_reflected_maps_are_symmetric(name):
    case = next(case for case in CONVERGENT if case.name == name)
    o = grid(torch.float32)
    a, b = case.map(o), case.map(Moments(-o.mean, o.variance))
    offset = 1.0 if "sigmoid" in name else 0.0
    torch.testing.assert_close(a.mean, offset - b.mean, rtol=0, atol=1e-7)
    torch.testing.assert_close(a.variance, b.variance, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["tanh", "accurate.tanh", "erf", "sin"])
def test_small_means_of_odd_maps_keep_their_digits(name):
    case = next(case for case in CONVERGENT if case.name == name)
    m = torch.tensor([1e-10, 1e-6, 1e-3, 1e-2])[:, None]
    s = torch.tensor([1e-6, 1e-2, 0.3, 0.7, 2.0, 30.0])
    exact = reference.at(case.reference, m.double().numpy(), s.double().numpy())
    error = np.abs(case.map(Moments(m, s)).mean.numpy() - exact.mean)
    assert np.all(error <= 2e-5 * exact.mean + 6e-8 * np.sqrt(s.numpy()))  # sums over nodes round in units of √s


@pytest.mark.parametrize("name", ["sigmoid", "accurate.sigmoid"])
def test_small_sigmoid_variances_are_relative(name):
    """Below the switch the variance has full relative accuracy, saturated inputs included."""
    case = next(case for case in CONVERGENT if case.name == name)
    m, s = (
        torch.tensor([-30.0, -12.0, -3.0, 0.0, 0.5, 8.0, 25.0])[:, None],
        torch.tensor([1e-12, 1e-6, 1e-3, 0.1, 0.25]),
    )
    exact = reference.at("sigmoid", m.double().numpy(), s.double().numpy())
    np.testing.assert_allclose(case.map(Moments(m, s)).variance, exact.variance, rtol=2e-5)


def _printed_sigmoid(m, s):
    """Paper, Section 3.2: κ(s) = (1 + πs/8)^(-1/2); E v² by a probit shifted by log(√2 + 1), α = 4 - 2√2."""
    alpha, beta = 4 - 2 * np.sqrt(2), -np.log(np.sqrt(2) + 1)
    mean = 1 / (1 + np.exp(-m / np.sqrt(1 + np.pi * s / 8)))
    second = 1 / (1 + np.exp(-alpha * (m + beta) / np.sqrt(1 + np.pi * alpha**2 * s / 8)))
    return mean, second - mean**2


def _printed_tanh(m, s):
    """Paper, supplement: tanh x = 2σ(2x) - 1 with E σ(2x)² as printed, α = 8 - 4√2, β = -log(√2 + 1)/2."""
    alpha, beta = 8 - 4 * np.sqrt(2), -0.5 * np.log(np.sqrt(2) + 1)
    half = 1 / (1 + np.exp(-2 * m / np.sqrt(1 + np.pi * s / 2)))
    second = 1 / (1 + np.exp(-alpha * (m + beta) / np.sqrt(1 + np.pi * alpha**2 * s / 8)))
    return 2 * half - 1, 4 * (second - half**2)


@pytest.mark.parametrize(("name", "printed"), [("sigmoid", _printed_sigmoid), ("tanh", _printed_tanh)])
def test_paper_variants_are_the_printed_formulas(name, printed):
    o = grid(torch.float64)
    a = getattr(maps.paper, name)(o)
    mean, variance = printed(o.mean.detach().numpy(), o.variance.detach().numpy())
    np.testing.assert_allclose(a.mean.detach(), mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(a.variance.detach(), np.maximum(variance, 0), rtol=1e-12, atol=1e-14)


def test_paper_variance_has_its_floor_at_zero_variance():
    m = torch.tensor([-3.0, -1.0, 0.0, 1.0, 3.0], dtype=torch.float64)
    for o in (Moments(m), Moments(m, torch.zeros_like(m))):  # a point counts as s = 0
        floor = maps.paper.sigmoid(o).variance
        np.testing.assert_allclose(floor, [0.00824, 0.02705, 0.01258, 0.00024, 0.01548], atol=6e-6)
    floor = maps.paper.tanh(Moments(torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0]))).variance
    np.testing.assert_allclose(floor, [0.075, 0.108, 0.050, 0.001, 0.047], atol=6e-4)
    assert (maps.sigmoid(Moments(m, torch.zeros_like(m))).variance == 0).all()


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 5e-6), (torch.float64, 1e-12)])
def test_max2_is_clarks_formula(dtype, rtol):
    points = map_cases.max2_points()
    exact = closed_forms.max2(points)
    m1, s1, m2, s2 = torch.tensor(points, dtype=dtype).T
    z = maps.max2(Moments(m1, s1), Moments(m2, s2))
    np.testing.assert_allclose(z.mean, exact[:, 0], rtol=rtol, atol=rtol)
    total = points[:, 1] + points[:, 3]
    assert np.all(np.abs(z.variance.double().numpy() - exact[:, 1]) <= rtol * exact[:, 1] + 0.02 * rtol * total)


def test_max2_with_points_is_the_rectifier_or_the_maximum():
    x, c = Moments(torch.tensor([-2.0, 0.0, 0.3]), torch.tensor([0.5, 1.0, 2.0])), torch.zeros(3)
    torch.testing.assert_close(tuple(maps.max2(x, Moments(c))), tuple(maps.relu(x)))
    torch.testing.assert_close(tuple(maps.max2(Moments(c), x)), tuple(maps.relu(x)))
    both = maps.max2(Moments(x.mean), Moments(c))
    assert both.variance is None
    assert torch.equal(both.mean, torch.maximum(x.mean, c))
