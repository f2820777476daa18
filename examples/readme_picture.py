"""The picture in the README: predicted demand for electricity with its 50 % and 90 % intervals, on made data.

python examples/readme_picture.py docs/images/intervals.png
"""

import sys
from pathlib import Path

import numpy as np

import torchnpn as npn
from torchnpn import metrics, plots


def demand(rng: np.random.Generator, days: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean temperature of a day, and gigawatts: heating and air conditioning; cold days differ more than warm ones."""
    season = np.cos(2 * np.pi * rng.uniform(size=days))
    celsius = 12 - 11 * season + rng.normal(0, 3, days)
    cold, hot = np.maximum(15 - celsius, 0), np.maximum(celsius - 20, 0)
    return celsius, 40 + 0.9 * cold + 1.4 * hot + (0.8 + 0.16 * cold) * rng.normal(size=days)


def main(picture: Path) -> None:
    rng = np.random.default_rng(4)
    celsius, gigawatts = demand(rng, 365)
    model = npn.NPNRegressor(random_state=0).fit(celsius[:, None], gigawatts)

    new_celsius, new_gigawatts = demand(rng, 10_000)
    low, high = model.predict_interval(new_celsius[:, None], level=0.9)
    held = metrics.interval_coverage(low, high, new_gigawatts)
    print(f"90% intervals hold {held:.0%} of 10,000 new days")

    grid = np.linspace(-13, 36, 400)
    predicted = model.predict_dist(grid[:, None])
    bands = {level: predicted.interval(level) for level in (0.5, 0.9)}
    labels = {"xlabel": "mean temperature of the day, °C", "ylabel": "demand, GW"}
    figure = plots.predictive_bands(celsius, gigawatts, grid, predicted.mean, bands, columns=2, **labels)
    picture.write_bytes(plots.png(figure))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
