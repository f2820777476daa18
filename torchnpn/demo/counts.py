"""Counts whose true rate is known: intervals that hold what they promise.

y is Poisson with a rate exp(f(x)) that rises and falls. Settings were chosen on the data of seeds 5 to 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from torchnpn import metrics, nn
from torchnpn.demo.progress import Progress, no_progress, part
from torchnpn.families import NegativeBinomial
from torchnpn.likelihoods import PoissonCounts
from torchnpn.moments import Moments
from torchnpn.priors import EmpiricalBayes
from torchnpn.training import Recipe, geometric_ramp, train

Array = NDArray[Any]
LOW, HIGH = -4.0, 4.0  # of x


@dataclass(frozen=True)
class Settings:
    seed: int = 0
    rows: int = 500
    test_rows: int = 4000
    hidden: int = 50
    epochs: int = 400
    batch_size: int = 100
    learning_rate: float = 1e-2
    kl_weight: tuple[float, float] = (0.01, 0.1)  # first and last β
    level: float = 0.9  # of the intervals


@dataclass(frozen=True)
class Curve:
    """Predictions along rows: the mean, the interval of the rate itself, the interval of a count."""

    mean: Array
    rate_low: Array
    rate_high: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Result:
    settings: Settings
    x: Array
    y: Array
    grid: Array
    truth: Array  # true rate along the grid
    curve: Curve
    test_rate: Array  # true rates of the test rows
    test: Curve
    coverage: float  # share of test counts within their interval
    expected: float  # what the model itself promises: whole numbers make it more than the level
    rate_coverage: float  # share of true rates within the interval of the rate
    nll: float  # of the test counts
    best_nll: float  # of the true distribution, which nothing can beat on average


def rate(x: Array) -> Array:
    """The true rate exp(f(x)), f(x) = 1.6 + 1.1 sin(1.3 x) + 0.15 x."""
    return np.exp(1.6 + 1.1 * np.sin(1.3 * x) + 0.15 * x)


def run(settings: Settings | None = None, progress: Progress = no_progress) -> Result:
    """Fit counts, then judge rates and intervals on fresh ones.

    Args:
        settings: What to run.
        progress: Called with the share of the work that is done.
    """
    s = Settings() if settings is None else settings
    rng = np.random.default_rng(s.seed)
    x, y = _draw(rng, s.rows)
    x_test, y_test = _draw(rng, s.test_rows)
    scale = x.std()

    generator = torch.Generator().manual_seed(s.seed)
    network = nn.mlp([1, s.hidden, 1], generator=generator)
    torch.nn.init.normal_(
        network.get_parameter("0.bias.mean"), generator=generator
    )  # kinks all along x, not at 0 alone
    likelihood = PoissonCounts()
    train(
        network,
        (torch.as_tensor(x / scale, dtype=torch.float32)[:, None], torch.as_tensor(y)[:, None]),
        likelihood,
        EmpiricalBayes(),
        Recipe(s.epochs, s.batch_size, s.learning_rate, kl_weight=geometric_ramp(*s.kl_weight), seed=s.seed),
        callback=part(progress, s.epochs),
        device="cpu",
    )

    @torch.no_grad()
    def predict(inputs: Array) -> tuple[Moments, NegativeBinomial]:
        o = network(torch.as_tensor(inputs / scale, dtype=torch.float32)[:, None])
        return o, likelihood.predict(o)

    grid = np.linspace(LOW, HIGH, 241)
    curve = _curve(*predict(grid), s.level)
    o, predicted = predict(x_test)
    test = _curve(o, predicted, s.level)
    inside = predicted.cdf(torch.as_tensor(test.high)[:, None]) - predicted.cdf(torch.as_tensor(test.low)[:, None] - 1)
    counts = torch.as_tensor(y_test)[:, None]
    return Result(
        s,
        x,
        y,
        grid,
        rate(grid),
        curve,
        test_rate=rate(x_test),
        test=test,
        coverage=metrics.interval_coverage(test.low, test.high, y_test),
        expected=float(inside.mean()),
        rate_coverage=metrics.interval_coverage(test.rate_low, test.rate_high, rate(x_test)),
        nll=float(-predicted.log_prob(counts).mean()),
        best_nll=float(-_true(x_test).logpmf(y_test).mean()),
    )


def _true(x: Array) -> Any:
    return stats.poisson(rate(x))


def _draw(rng: np.random.Generator, rows: int) -> tuple[Array, Array]:
    """x uniform, and a count for each."""
    x = rng.uniform(LOW, HIGH, rows)
    return x, _true(x).rvs(random_state=rng)


def _curve(o: Moments, predicted: NegativeBinomial, level: float) -> Curve:
    """The rate is log-normal, e^o with Gaussian o; a count is negative binomial."""
    tail = (1 - level) / 2
    m, std = o.mean.double().numpy()[:, 0], o.std.double().numpy()[:, 0]
    low, high = (predicted.quantile(q).numpy()[:, 0] for q in (tail, 1 - tail))
    spread = stats.norm.ppf(1 - tail) * std
    return Curve(predicted.mean.numpy()[:, 0], np.exp(m - spread), np.exp(m + spread), low, high)
