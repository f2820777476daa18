"""The search between known ends against scipy, and how many looks it takes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from torchnpn.families.quantile_between import quantile_between
from torchnpn.families.tails import Tails

LEVELS = np.array([1e-12, 1e-6, 0.05, 0.3, 0.45, 0.7, 0.95, 1 - 1e-6, 1 - 1e-12])
CASES = {
    "normal": (stats.norm(2.0, 0.5), -20.0, 20.0),
    "far from zero": (stats.norm(1e6, 1e-3), 1e6 - 1, 1e6 + 1),
    "gamma": (stats.gamma(0.3), 0.0, 1e3),
    "small shape": (stats.gamma(0.02), 0.0, 1e3),
    "log-normal": (stats.lognorm(3.0), 0.0, 1e12),
    "heavy tails": (stats.t(1.5), -1e9, 1e9),
    "all numbers": (stats.norm(1.0, 1.0), -1e300, 1e300),
}


@pytest.mark.parametrize(("twin", "low", "high"), CASES.values(), ids=CASES)
def test_it_finds_quantiles_in_few_looks(twin, low, high):
    looks = []

    def tails(y):
        looks.append(y)
        return Tails(twin.cdf(y), twin.sf(y))

    ends = np.full(LEVELS.shape, low), np.full(LEVELS.shape, high)
    found = quantile_between(tails, LEVELS, *ends)
    expected = np.where(LEVELS > 0.5, twin.isf(1 - LEVELS), twin.ppf(LEVELS))
    np.testing.assert_allclose(found, np.clip(expected, low, high), rtol=2e-9, atol=1e-300)
    assert len(looks) <= 76  # halving alone takes up to 52


def test_steps_and_ends_are_found_too():
    """Of a distribution function with jumps, and where the level is never or always reached."""

    def tails(y):
        below = np.where(y < 1, 0.0, np.where(y < 4, 0.25, 0.5))
        return Tails(below, 1 - below)

    q = np.array([0.1, 0.25, 0.3, 0.5, 0.9])
    found = quantile_between(tails, q, np.full(5, -10.0), np.full(5, 10.0))
    np.testing.assert_allclose(found, [1, 1, 4, 4, 10], rtol=1e-11)
    np.testing.assert_array_equal(quantile_between(tails, q, np.full(5, 3.0), np.full(5, 3.0)), 3.0)
