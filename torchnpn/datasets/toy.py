"""Noisy points of x³ (paper, Figure 1; first by Hernández-Lobato and Adams, 2015): generated, with no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchnpn.datasets.dataset import Dataset, Info

POINTS = 20
REACH = 4.0  # points lie in ±4
NOISE_STD = 3.0

INFO = Info(
    name="toy",
    title="Noisy points of a cubic curve",
    rows=POINTS,
    columns=1,
    task="regression",
    licence="none needed",
    source="generated",
    present=True,
    path=Path(__file__),  # what makes the points is all the file there is
)


def cubic(generator: np.random.Generator, points: int = POINTS) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw x ~ U(-4, 4) and y = x³ + N(0, 9), each (points,); `default_rng(0)` draws those of `load("toy")`."""
    x = generator.uniform(-REACH, REACH, points)
    return x, x**3 + generator.normal(0.0, NOISE_STD, points)


def dataset() -> Dataset:
    """Twenty points, the same each time."""
    x, y = cubic(np.random.default_rng(0))
    return Dataset(
        name=INFO.name,
        X=x[:, None],
        y=y,
        feature_names=("x",),
        targets={"y": y},
        description="Twenty points y = x³ + ε with x uniform in ±4 and noise of standard deviation 3. A network should "
        "be sure of the curve where the points are, and less and less sure away from them.",
    )
