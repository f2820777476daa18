"""Mixtures of predictive distributions, against scipy's members put together by hand."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats

from torchnpn import families
from torchnpn.families import ExponentialFamily
from torchnpn.likelihoods import Categorical, Mixture, VarianceParts, mixed, mixture_parts


class Case(NamedTuple):
    """Members of one row, by the parameters of the family and as objects of scipy."""

    name: str
    family: type[ExponentialFamily]
    parameters: list[tuple[float, float]]  # of each member
    scipy: list[Any]

    @property
    def mixture(self) -> Mixture:
        first, second = (torch.tensor(column, dtype=torch.float64) for column in zip(*self.parameters, strict=True))
        return Mixture(self.family(first, second))

    @property
    def is_count(self) -> bool:
        return self.family is families.NegativeBinomial

    def cdf(self, x: Any) -> Any:
        return np.mean([member.cdf(x) for member in self.scipy], axis=0)

    def around(self) -> list[float]:
        """Points from one tail to the other."""
        ends = [member.ppf(q) for member in self.scipy for q in (1e-3, 0.2, 0.5, 0.9, 0.999)]
        return [float(np.floor(x)) if self.is_count else float(x) for x in ends]


FAMILIES = {**families.BY_NAME, "log_normal": families.LogNormal}


def case(name: str, *parameters: tuple[float, float]) -> Case:
    build = {
        "gaussian": lambda m, s: stats.norm(m, np.sqrt(s)),
        "gamma": lambda c, d: stats.gamma(c, scale=1 / d),
        "beta": stats.beta,
        "log_normal": lambda m, s: stats.lognorm(np.sqrt(s), scale=np.exp(m)),
        "negative_binomial": lambda n, p: stats.nbinom(n, 1 - p),
    }[name]
    label = f"{name}{list(parameters)}".replace(" ", "")
    return Case(
        label,
        {**families.BY_NAME, "log_normal": families.LogNormal}[name],
        list(parameters),
        [build(*one) for one in parameters],
    )


CASES = [
    case("gaussian", (0, 1), (0.5, 2), (-0.3, 0.7)),
    case("gaussian", (-10, 0.01), (10, 0.01)),
    case("gaussian", (3, 4)),
    case("gamma", (2, 1), (3, 1.2), (2.5, 0.9)),
    case("gamma", (0.3, 1), (50, 2)),
    case("beta", (2, 3), (3, 2.5)),
    case("beta", (0.8, 0.7), (40, 2), (3, 90)),
    case("log_normal", (0, 1), (0.5, 0.7), (-0.3, 2)),
    case("log_normal", (3, 0.01), (3.2, 0.02)),
    case("negative_binomial", (2, 0.5), (3, 0.6), (2.5, 0.3)),
    case("negative_binomial", (1e8, 3e-8), (0.2, 0.9)),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_moments(case):
    means, variances = (np.array([float(getattr(d, what)()) for d in case.scipy]) for what in ("mean", "var"))
    mean = means.mean()
    np.testing.assert_allclose(case.mixture.mean, mean, rtol=1e-7)
    np.testing.assert_allclose(case.mixture.variance, (variances + means**2).mean() - mean**2, rtol=1e-6)


@every_case
def test_density_and_distribution_function(case):
    for y in case.around():
        density = np.mean([d.pmf(y) if case.is_count else d.pdf(y) for d in case.scipy])
        np.testing.assert_allclose(case.mixture.log_prob(y), np.log(density), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(case.mixture.cdf(y), case.cdf(y), rtol=1e-7)


@every_case
def test_weights_say_how_often_a_member_is_there(case):
    """A member of weight 2/K is one that is there twice among K."""
    count = len(case.parameters)
    twice = case._replace(parameters=[*case.parameters, case.parameters[0]]).mixture
    weights = torch.tensor([2.0, *[1.0] * (count - 1)], dtype=torch.float64) / (count + 1)
    weighted = Mixture(case.mixture.members, weights)
    for ours, theirs in ((weighted.mean, twice.mean), (weighted.variance, twice.variance)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    for y in case.around():
        for what in ("log_prob", "cdf", "crps"):
            np.testing.assert_allclose(
                getattr(weighted, what)(y), getattr(twice, what)(y), rtol=1e-7, atol=1e-9, err_msg=what
            )
    for q in (0.01, 0.4, 0.99):
        np.testing.assert_allclose(weighted.quantile(q), twice.quantile(q), rtol=1e-7)


def test_draws_come_from_members_by_their_weights():
    apart = families.Gaussian(torch.tensor([-100.0, 100.0]), torch.ones(2))
    draws = Mixture(apart, torch.tensor([0.2, 0.8])).sample(20_000, torch.Generator().manual_seed(0))
    np.testing.assert_allclose((draws > 0).double().mean(), 0.8, atol=0.015)


@pytest.mark.parametrize("weights", [[0.5, 0.6], [1.0, 0.0], [1.0], [1.5, -0.5], [float("nan"), 0.5]])
def test_wrong_weights_are_refused(weights):
    with pytest.raises(ValueError, match="2 weights above zero with a sum of one"):
        Mixture(families.Gaussian(torch.zeros(2), torch.ones(2)), torch.tensor(weights))


@every_case
@pytest.mark.parametrize("q", [1e-6, 0.05, 0.3, 0.6, 0.95, 1 - 1e-6])
def test_quantile(case, q):
    found = case.mixture.quantile(q).item()
    if case.is_count:
        assert found == np.floor(found)
        assert case.cdf(found) >= q > case.cdf(found - 1)
        return
    own = [member.ppf(q) for member in case.scipy]
    if max(own) > min(own):
        inside = optimize.brentq(lambda x: case.cdf(x) - q, min(own), max(own), xtol=1e-300, rtol=1e-14)
        np.testing.assert_allclose(case.cdf(found), q, rtol=1e-8)
        np.testing.assert_allclose(found, inside, rtol=1e-6)
    else:
        np.testing.assert_allclose(found, own[0], rtol=1e-12)


def test_quantiles_at_the_ends():
    two = Mixture(families.Gaussian(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0])))
    assert two.quantile(0.0) == -torch.inf and two.quantile(1.0) == torch.inf
    shares = Mixture(families.Beta(torch.tensor([2.0, 1.0]), torch.tensor([1.0, 2.0])))
    assert shares.quantile(0.0) == 0 and shares.quantile(1.0) == 1
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        two.quantile(1.5)


def test_points_are_steps():
    """Half of the mass at 1, half at 3."""
    points = Mixture(families.Gaussian(torch.tensor([1.0, 3.0]), torch.zeros(2)))
    assert [points.quantile(q).item() for q in (0.2, 0.5)] == [1.0, 1.0]
    np.testing.assert_allclose([points.quantile(q).item() for q in (0.51, 0.9)], 3.0, rtol=1e-6)
    assert points.mean == 2 and points.variance == 1


@every_case
def test_samples_have_its_distribution(case):
    draws = case.mixture.sample(4000, torch.Generator().manual_seed(0)).numpy()
    assert draws.shape == (4000,)
    again = case.mixture.sample(4000, torch.Generator().manual_seed(0)).numpy()
    np.testing.assert_array_equal(draws, again)
    grid = np.unique(case.around())
    shares = (draws[:, None] <= grid).mean(0)
    np.testing.assert_allclose(shares, case.cdf(grid), atol=4.5 * 0.5 / np.sqrt(4000))


def test_rows_and_targets_keep_their_places():
    generator = torch.Generator().manual_seed(0)
    m, s = torch.randn(3, 4, 2, generator=generator), torch.rand(3, 4, 2, generator=generator) + 0.1
    mixture = Mixture(families.Gaussian(m, s))
    assert mixture.batch_shape == (4, 2)
    assert mixture.sample(5).shape == (5, 4, 2)
    one = Mixture(families.Gaussian(m[:, 3, 1], s[:, 3, 1]))
    y = torch.randn(4, 2, generator=generator)
    for whole, part in [
        (mixture.mean, one.mean),
        (mixture.variance, one.variance),
        (mixture.log_prob(y), one.log_prob(y[3, 1])),
        (mixture.cdf(y), one.cdf(y[3, 1])),
        (mixture.quantile(0.3), one.quantile(0.3)),
    ]:
        assert whole.shape == (4, 2)
        torch.testing.assert_close(whole[3, 1], part)
    with pytest.raises(ValueError, match="first dimension"):
        Mixture(families.Gaussian(0.0, 1.0))


def test_gradients_of_the_log_density():
    m, s = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in ([0.0, 2.0], [1.0, 0.5]))
    assert torch.autograd.gradcheck(lambda m, s: Mixture(families.Gaussian.unchecked(m, s)).log_prob(0.7), (m, s))


def test_far_from_all_members_there_is_still_a_logarithm():
    far = Mixture(families.Gaussian(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 1.0]))).log_prob(1e3)
    np.testing.assert_allclose(far, stats.norm(1).logpdf(1e3) - np.log(2), rtol=1e-6)
    outside = Mixture(families.Gamma(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))).log_prob(-1.0)
    assert outside == -torch.inf


def test_classes_mix_into_classes():
    probs = torch.tensor([[[0.2, 0.8]], [[0.6, 0.4]]])
    assert isinstance(mixed(Categorical(probs)), Categorical)
    torch.testing.assert_close(mixed(Categorical(probs)).mean, torch.tensor([[0.4, 0.6]]))
    assert isinstance(mixed(families.Gaussian(torch.zeros(2), torch.ones(2))), Mixture)


def test_parts_of_a_mixture_s_variance():
    """The law of total variance, with the choice of a member as one more doubt."""
    epistemic, aleatoric = torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([[0.5, 1.0], [0.5, 2.0]])
    means = torch.tensor([[0.0, 1.0], [4.0, 1.0]])
    parts = mixture_parts(VarianceParts.of(epistemic, aleatoric), means)
    torch.testing.assert_close(parts.epistemic, torch.tensor([2.0 + 4.0, 1.0]))
    torch.testing.assert_close(parts.aleatoric, torch.tensor([0.5, 1.5]))
    variance = Mixture(families.Gaussian(means, epistemic + aleatoric)).variance
    torch.testing.assert_close(parts.total, variance)


# CRPS ------------------------------------------------------------------------------------------------------------


def crps_by_definition(case: Case, y: float) -> float:
    """∫ (F(x) - 1{y ≤ x})² dx, or the sum over counts."""
    if case.is_count:
        x = np.arange(max(y, max(member.ppf(1 - 1e-14) for member in case.scipy)) + 2)
        return float(((case.cdf(x) - (x >= y)) ** 2).sum())
    levels = (1e-12, 0.01, 0.5, 0.99, 1 - 1e-12)
    breaks = sorted({y, *(float(member.ppf(q)) for member in case.scipy for q in levels)})
    panels = itertools.pairwise(breaks)
    return sum(integrate.quad(lambda x: (case.cdf(x) - (x >= y)) ** 2, *panel, epsabs=1e-11)[0] for panel in panels)


EXTREMES = [  # with the error that the rule has there
    (case("gamma", (0.05, 1), (0.2, 1.2), (0.1, 0.9)), 2e-4),
    (case("gamma", (1e6, 1e6), (1.1e6, 1e6)), 2e-4),
    (case("beta", (1e5, 1e5), (1.1e5, 1e5)), 2e-6),
    (case("negative_binomial", (1, 1 - 1e-3), (2, 1 - 2e-3), (3, 1 - 3e-3)), 1e-6),
    (case("negative_binomial", (1e8, 1e-4), (1e8, 1.1e-4)), 1e-9),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "tolerance"), [*((case, 1e-6) for case in CASES), *EXTREMES], ids=lambda x: getattr(x, "name", None)
)
def test_crps(case, tolerance):
    middle = float(np.mean([member.mean() for member in case.scipy]))
    spread = float(np.mean([member.std() for member in case.scipy]))
    targets = [middle, middle + spread, middle + 5 * spread]
    if case.family is families.Beta:
        targets = [0.01, 0.5, 0.95]
    if case.is_count:
        targets = [0.0, *map(np.round, targets)]
    found = [case.mixture.crps(y).item() for y in targets]
    np.testing.assert_allclose(found, [crps_by_definition(case, y) for y in targets], rtol=tolerance)
