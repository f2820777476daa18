"""Metrics are what their textbook definitions say, and say what is wrong with their arguments."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, special, stats
from sklearn.metrics import brier_score_loss, log_loss

from torchnpn import metrics

RNG = np.random.default_rng(0)
NAN = float("nan")


def quadrature(cdf, sf, y, low, high):
    """∫ (F(x) - 1{y ≤ x})² dx, in pieces no wider than the distribution."""
    ends = np.unique(np.clip(np.append(np.linspace(low, high, 41), y), min(low, y), max(high, y)))
    square = lambda a: (lambda x: sf(x) ** 2) if a >= y else (lambda x: cdf(x) ** 2)
    return sum(integrate.quad(square(a), a, b, epsabs=0, epsrel=1e-10)[0] for a, b in itertools.pairwise(ends))


def crps_by_quadrature(distribution, y):
    low, high = distribution.ppf(1e-17), distribution.isf(1e-17)
    return quadrature(distribution.cdf, distribution.sf, y, min(low, y), max(high, y))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")  # asked for more digits than the test needs
@pytest.mark.parametrize(("mean", "std"), [(0, 1), (5, 0.01), (-3, 40)])
def test_crps_matches_quadrature(mean, std):
    distribution = stats.norm(mean, std)
    targets = distribution.ppf([0.001, 0.2, 0.5, 0.9, 0.9999])
    expected = [crps_by_quadrature(distribution, y) for y in targets]
    np.testing.assert_allclose(metrics.crps_gaussian(mean, std, targets), expected, rtol=2e-7)


def test_crps_of_a_mixture():
    means, stds, y = RNG.normal(size=(4, 3)), RNG.uniform(0.1, 2, (4, 3)), RNG.normal(size=3)
    crps = metrics.crps_mixture_gaussian(means, stds, y)
    for row in range(3):
        cdf = lambda x: special.ndtr((x - means[:, row]) / stds[:, row]).mean()
        sf = lambda x: special.ndtr((means[:, row] - x) / stds[:, row]).mean()
        assert crps[row] == pytest.approx(quadrature(cdf, sf, y[row], -30, 30), rel=1e-7)
    one = metrics.crps_mixture_gaussian(means[:1], stds[:1], y)
    np.testing.assert_allclose(one, metrics.crps_gaussian(means[0], stds[0], y), rtol=1e-12)


# Errors and intervals -----------------------------------------------------------------------------------------------


def test_nll_and_rmse_match_references():
    mean, std, y = RNG.normal(size=50), RNG.uniform(0.5, 2, 50), RNG.normal(size=50)
    assert metrics.gaussian_nll(mean, std, y) == pytest.approx(-stats.norm(mean, std).logpdf(y).mean(), rel=1e-12)
    assert metrics.rmse(mean, y) == pytest.approx(np.linalg.norm(mean - y) / np.sqrt(50), rel=1e-12)
    probs, labels = RNG.dirichlet(np.ones(4), 50), RNG.integers(4, size=50)
    assert metrics.categorical_nll(probs, labels) == pytest.approx(log_loss(labels, probs, labels=range(4)), rel=1e-12)
    assert metrics.categorical_nll([[1.0, 0.0]], [1]) == np.inf


def test_one_row_of_predictions_serves_many_draws():
    mean, std, draws = RNG.normal(size=5), RNG.uniform(0.5, 2, 5), RNG.normal(size=(7, 5))
    expected = np.mean([metrics.gaussian_nll(mean, std, draw) for draw in draws])
    assert metrics.gaussian_nll(mean, std, draws) == pytest.approx(expected, rel=1e-12)


def test_brier_score():
    probs, labels = RNG.dirichlet(np.ones(2), 50), RNG.integers(2, size=50)
    assert metrics.brier_score(probs, labels).mean() == pytest.approx(2 * brier_score_loss(labels, probs[:, 1]))
    np.testing.assert_allclose(metrics.brier_score([[1, 0, 0], [1, 0, 0], [0.5, 0.3, 0.2]], [0, 1, 2]), [0, 2, 0.98])


def test_interval_coverage_counts_the_ends():
    assert metrics.interval_coverage([0, 0, 0, 0], [2, 2, 2, 2], [0, 2, 3, -1]) == 0.5


def test_interval_score_by_hand():
    np.testing.assert_allclose(metrics.interval_score([0, 0, 0], [2, 2, 2], [1, 3, -0.5], level=0.8), [2, 12, 7])
    assert metrics.interval_width([0, 1], [2, 5]) == 3


def test_interval_score_is_least_at_the_quantiles():
    """The mean score is Winkler's only if no other interval does better on average."""
    y = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    ends = np.linspace(1.0, 2.4, 29)
    scores = [metrics.interval_score(-end, end, y, level=0.9).mean() for end in ends]
    assert ends[np.argmin(scores)] == pytest.approx(stats.norm.ppf(0.95), abs=0.05)


# Calibration --------------------------------------------------------------------------------------------------------


def test_reliability_by_hand():
    probs = np.array([[0.5, 0.5], [0.95, 0.05], [0.1, 0.9], [0.2, 0.8], [1.0, 0.0]])
    bins = metrics.reliability(probs, [0, 0, 0, 1, 0], bins=10)
    np.testing.assert_array_equal(bins.rows, [0, 0, 0, 0, 1, 0, 0, 1, 1, 2])  # right ends belong to their bins
    np.testing.assert_allclose(bins.confidence[[4, 7, 8, 9]], [0.5, 0.8, 0.9, 0.975])
    np.testing.assert_allclose(bins.accuracy[[4, 7, 8, 9]], [1, 1, 0, 1])
    assert np.isnan(bins.confidence[[0, 5]]).all() and np.isnan(bins.accuracy[[0, 5]]).all()
    assert metrics.calibration_error(probs, [0, 0, 0, 1, 0], bins=10) == pytest.approx((0.5 + 0.2 + 0.9 + 0.05) / 5)


def test_calibrated_classes_have_no_calibration_error():
    probs = RNG.dirichlet(np.ones(3), 40_000)
    labels = (RNG.random((40_000, 1)) > probs.cumsum(axis=1)).sum(axis=1)
    assert metrics.calibration_error(probs, labels) < 0.01
    sharpened = probs**3 / (probs**3).sum(axis=1, keepdims=True)
    assert metrics.calibration_error(sharpened, labels) > 0.15


def test_calibration_curve_is_the_distribution_of_pit():
    curve = metrics.calibration_curve([0.0, 0.25, 0.5, 1.0], levels=4)
    np.testing.assert_allclose(curve.expected, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(curve.observed, [0.25, 0.5, 0.75, 0.75, 1])
    assert metrics.regression_calibration_error([0.0, 0.25, 0.5, 1.0], levels=4) == pytest.approx(0.75 / 5)


def test_regression_calibration_error_by_chance_and_at_worst():
    by_chance = [metrics.regression_calibration_error(RNG.random(400)) for _ in range(400)]
    assert np.mean(by_chance) * np.sqrt(400) == pytest.approx(np.sqrt(2 / np.pi) * np.pi / 8, rel=0.1)
    assert metrics.regression_calibration_error(np.zeros(10)) == pytest.approx(0.5, abs=0.01)


def test_pit_of_counts_is_uniform_where_theirs_is_not():
    counts = stats.poisson(1.5)
    y = counts.rvs(4000, random_state=1)
    pit = metrics.pit_for_counts(counts.cdf(y - 1), counts.cdf(y), random_state=2)
    assert stats.kstest(pit, "uniform").pvalue > 0.01
    assert stats.kstest(counts.cdf(y), "uniform").pvalue < 1e-9
    np.testing.assert_array_equal(pit, metrics.pit_for_counts(counts.cdf(y - 1), counts.cdf(y), random_state=2))
    assert ((pit >= counts.cdf(y - 1)) & (pit <= counts.cdf(y))).all()


# Uncertainty --------------------------------------------------------------------------------------------------------


def test_accuracy_by_uncertainty_sorts_into_equal_groups():
    doubt = RNG.permutation(90) / 90
    groups = metrics.accuracy_by_uncertainty(doubt < 0.5, doubt, groups=9)
    np.testing.assert_array_equal(groups.accuracy, [1, 1, 1, 1, 0.5, 0, 0, 0, 0])
    np.testing.assert_array_equal(groups.rows, np.full(9, 10))
    assert (np.diff(groups.uncertainty) > 0).all()
    z = 1.0  # Wilson's interval at one standard error
    centre = (0.5 + z**2 / 20) / (1 + z**2 / 10)
    low, high = centre - groups.error[4], centre + groups.error[4]
    for end in (low, high):  # its ends solve |p̂ - p| = z √(p(1-p)/n)
        assert abs(0.5 - end) == pytest.approx(z * np.sqrt(end * (1 - end) / 10), rel=1e-9)
    with pytest.raises(ValueError, match="groups from 1 to 3"):
        metrics.accuracy_by_uncertainty([True] * 3, [0, 1, 2], groups=4)


def test_risk_coverage_by_hand():
    curve = metrics.risk_coverage([True, False, True, True], [0.1, 0.4, 0.2, 0.3])
    np.testing.assert_allclose(curve.coverage, [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(curve.risk, [0, 0, 0, 0.25])
    assert curve.area == pytest.approx(0.0625)


def test_ood_auroc_counts_pairs():
    inside, outside = RNG.integers(5, size=40), RNG.integers(2, 8, size=30)
    pairs = np.subtract.outer(outside, inside)
    assert metrics.ood_auroc(inside, outside) == pytest.approx(np.mean(pairs > 0) + np.mean(pairs == 0) / 2)
    assert metrics.ood_auroc([1, 2], [3]) == 1


# What is wrong with the arguments -----------------------------------------------------------------------------------

TWO = {  # metrics of several arguments of one shape
    metrics.rmse: 2,
    metrics.gaussian_nll: 3,
    metrics.interval_coverage: 3,
    metrics.interval_width: 2,
    metrics.interval_score: 3,
    metrics.crps_gaussian: 3,
    metrics.accuracy_by_uncertainty: 2,
    metrics.risk_coverage: 2,
    metrics.pit_for_counts: 2,
}


@pytest.mark.parametrize("metric", TWO, ids=lambda metric: metric.__name__)
def test_arrays_that_do_not_match_are_refused(metric):
    good = np.full(3, 0.5)
    others = [good] * (TWO[metric] - 1)
    for bad, words in [(np.ones(4), "shape"), (np.ones((3, 1)), "shape"), ([0.5, NAN, 0.5], "1 NaN")]:
        with pytest.raises(ValueError, match=f"^{metric.__name__} expects .*{words}"):
            metric(bad, *others)
    with pytest.raises(ValueError, match="at least one row"):
        metric(*[np.empty(0)] * TWO[metric])


@pytest.mark.parametrize("metric", [metrics.categorical_nll, metrics.brier_score, metrics.reliability])
def test_wrong_probabilities_are_refused(metric):
    for probs, labels, words in [
        ([0.5, 0.5], [0, 1], r"probs \(rows, classes\)"),
        ([[0.5, 0.5]], [0, 1], r"labels \(rows,\)"),
        ([[0.5, 0.4]], [0], "add up to 1, got 0.9"),
        ([[1.5, -0.5]], [0], "from 0 to 1, got 1.5"),
        ([[0.5, 0.5]], [2], "classes from 0 to 1, got 2"),
        ([[0.5, 0.5]], [0.5], "classes from 0 to 1, got 0.5"),
        ([[0.5, NAN]], [0], "1 NaN in probs"),
        (np.empty((0, 2)), [], "at least one row"),
    ]:
        with pytest.raises(ValueError, match=words):
            metric(probs, labels)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.crps_gaussian(0.0, [1.0, 0.0], [1.0, 1.0]), "std > 0, got 0"),
        (lambda: metrics.gaussian_nll(0.0, [1.0, -1.0], [1.0, 1.0]), "std > 0, got -1"),
        (lambda: metrics.crps_mixture_gaussian([0.0, 1.0], [1.0, 1.0], [0.0, 1.0]), r"means \(members, rows\)"),
        (lambda: metrics.interval_width([1.0], [0.0]), "high - low >= 0, got -1"),
        (lambda: metrics.interval_score([0.0], [1.0], [0.0], level=1.0), r"level in \(0, 1\), got 1"),
        (lambda: metrics.calibration_curve([0.5, 1.5]), "pit from 0 to 1, got 1.5"),
        (lambda: metrics.calibration_curve([0.5], levels=0), "levels >= 1"),
        (lambda: metrics.reliability([[0.5, 0.5]], [0], bins=0), "bins >= 1"),
        (lambda: metrics.pit_for_counts([0.6], [0.5]), "cdf_below from 0 to cdf_at"),
        (lambda: metrics.pit_for_counts([0.6], [1.5]), "cdf_at <= 1"),
        (lambda: metrics.ood_auroc([], [1.0]), "at least one row, got inside"),
        (lambda: metrics.ood_auroc([[1.0]], [1.0]), r"shape \(rows,\)"),
    ],
)
def test_wrong_values_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
