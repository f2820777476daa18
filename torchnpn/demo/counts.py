"""Counts whose true rate is known: does a 90 % interval hold 90 % of new counts?

y is Poisson with a rate exp(f(x)) that rises and falls; `NPNRegressor(family="poisson")` has its default settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import torchnpn as npn
from torchnpn.plots import Interval

Array = NDArray[Any]
LOW, HIGH = -4.0, 4.0  # of x
ROWS, TEST_ROWS, LEVEL = 500, 4000, 0.9


@dataclass(frozen=True)
class Result:
    """Predictions along a grid and for test rows, and how good they are."""

    x: Array
    y: Array
    grid: Array
    truth: Array  # true rate along the grid
    curve: Interval  # predictions along the grid
    test_rate: Array  # true rates of the test rows
    test: Interval
    coverage: float  # share of test counts within their interval
    expected: float  # what the model itself predicts: whole numbers make it more than the level
    rate_coverage: float  # share of true rates within the interval of the rate
    nll: float  # of the test counts
    best_nll: float  # of the true distribution, which nothing can beat on average


def rate(x: Array) -> Array:
    """The true rate exp(f(x)), f(x) = 1.6 + 1.1 sin(1.3 x) + 0.15 x."""
    return np.exp(1.6 + 1.1 * np.sin(1.3 * x) + 0.15 * x)


def run(max_epochs: int | None = None, seed: int = 0) -> Result:
    """Fit counts, then test rates and intervals on fresh ones."""
    rng = np.random.default_rng(seed)
    x, x_test = rng.uniform(LOW, HIGH, ROWS), rng.uniform(LOW, HIGH, TEST_ROWS)
    y, y_test = rng.poisson(rate(x)), rng.poisson(rate(x_test))
    model = npn.NPNRegressor(family="poisson", max_epochs=max_epochs, random_state=seed).fit(x[:, None], y)

    grid = np.linspace(LOW, HIGH, 241)
    test, predicted = _curve(model, x_test), model.predict_dist(x_test[:, None])
    return Result(
        x,
        y,
        grid,
        rate(grid),
        _curve(model, grid),
        test_rate=rate(x_test),
        test=test,
        coverage=npn.metrics.interval_coverage(test.low, test.high, y_test),
        expected=float(np.mean(predicted.cdf(test.high) - predicted.cdf(test.low - 1))),
        rate_coverage=npn.metrics.interval_coverage(test.rate_low, test.rate_high, rate(x_test)),
        nll=float(-predicted.log_prob(y_test).mean()),
        best_nll=float(-stats.poisson(rate(x_test)).logpmf(y_test).mean()),
    )


def _curve(model: npn.NPNRegressor, x: Array) -> Interval:
    """The rate is log-normal, so its mean and its (epistemic) variance give its interval."""
    predicted = model.predict_dist(x[:, None])
    log_variance = np.log1p(model.predict_variance(x[:, None]).epistemic / predicted.mean**2)
    centre = np.log(predicted.mean) - log_variance / 2
    spread = stats.norm.ppf((1 + LEVEL) / 2) * np.sqrt(log_variance)
    return Interval(predicted.mean, np.exp(centre - spread), np.exp(centre + spread), *predicted.interval(LEVEL))
