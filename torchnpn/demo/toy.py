"""Twenty noisy points of x³: a good fit where there are points, wide bands where there are none (paper, Figure 1).

The settings are the best of 39 on the data of seeds 5 to 9. With the full weight of the KL, 20 points cannot hold 100
units against their prior, and the fit is a flat line; a weight that rises from 0.01 to 0.2 keeps the fit, and lets
weights that no point needs return to the wide prior, which opens the band outside the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import torchnpn as npn
from torchnpn.datasets import toy
from torchnpn.training import geometric_ramp

Array = NDArray[Any]
POINTS, OUTSIDE = 20, 6.0  # points lie in ±4, predictions are made in ±6


@dataclass(frozen=True)
class Result:
    """A predictive distribution N(mean, std²) along the grid, and how good it is."""

    x: Array
    y: Array
    grid: Array
    truth: Array
    mean: Array
    std: Array
    rmse: float  # to the true curve, inside
    coverage: float  # share of the true curve within ±3 std, inside
    outside: float  # the same, outside
    widening: float  # std at the outer ends, the smaller, over that at 0
    nll: float  # of fresh noisy targets, inside


def run(steps: int = 2000, seed: int = 0) -> Result:
    """Fit a network of 100 ReLU units to the points."""
    rng = np.random.default_rng(seed)
    x, y = toy.cubic(rng, POINTS)
    grid = np.linspace(-OUTSIDE, OUTSIDE, 241)

    def standardised(values: Array, like: Array) -> torch.Tensor:  # (rows,) -> (rows, 1)
        return torch.as_tensor((values - like.mean()) / like.std(), dtype=torch.float32)[:, None]

    network = npn.nn.mlp([1, 100, 1], generator=torch.Generator().manual_seed(seed))
    likelihood = npn.likelihoods.GaussianNoise()
    npn.train(
        network,
        (standardised(x, x), standardised(y, y)),
        likelihood,
        npn.priors.IsotropicGaussian(1e-2),
        npn.Recipe(steps, POINTS, learning_rate=1e-2, kl_weight=geometric_ramp(0.01, 0.2), seed=seed),
        device="cpu",
    )
    with torch.no_grad():
        predicted = likelihood.predict(network(standardised(grid, x)))
    mean = predicted.mean.double().numpy()[:, 0] * y.std() + y.mean()
    std = predicted.variance.double().sqrt().numpy()[:, 0] * y.std()

    truth, inside = grid**3, np.abs(grid) <= toy.REACH
    fresh = truth + rng.normal(0.0, toy.NOISE_STD, (50, grid.size))
    covered = np.abs(mean - truth) <= 3 * std
    return Result(
        x,
        y,
        grid,
        truth,
        mean,
        std,
        rmse=npn.metrics.rmse(mean[inside], truth[inside]),
        coverage=float(covered[inside].mean()),
        outside=float(covered[~inside].mean()),
        widening=float(min(std[0], std[-1]) / std[grid.size // 2]),
        nll=npn.metrics.gaussian_nll(mean[inside], std[inside], fresh[:, inside]),
    )
