"""How many bikes will be hired tomorrow? Counts by temperature and weekend: whole numbers, never below zero.

python examples/counts.py [--plot picture.png]
"""

import argparse
from pathlib import Path

import numpy as np

import torchnpn as npn
from torchnpn import metrics


def days(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Made data: warm days and weekends are busy, and weather not recorded makes counts vary more than Poisson's."""
    temperature, weekend = rng.uniform(-5, 30, n), rng.integers(0, 2, n)
    rate = np.exp(0.5 + 0.06 * temperature + 0.6 * weekend)
    return np.stack([temperature, weekend], axis=1), rng.poisson(rate * rng.gamma(3, 1 / 3, n))


def main(plot: Path | None) -> None:
    rng = np.random.default_rng(0)
    (X, y), (X_new, y_new) = days(400, rng), days(1000, rng)
    counts = npn.NPNRegressor("negative_binomial", max_epochs=250, random_state=0).fit(X, y)
    real = npn.NPNRegressor("gaussian", max_epochs=250, random_state=0).fit(X, y)

    for model in (counts, real):
        low, high = model.predict_interval(X_new, 0.9)
        inside, nll = metrics.interval_coverage(low, high, y_new), -model.log_likelihood(X_new, y_new).mean()
        print(
            f"{model.family:17}: 90% intervals hold {inside:.0%}, the lowest starts at {low.min():.0f}; NLL {nll:.2f}"
        )

    named = {"a cold weekday": [0, 0], "a warm weekday": [25, 0], "a warm Sunday": [25, 1]}
    tomorrow = counts.predict_dist(list(named.values()))
    low, high = tomorrow.interval(0.9)
    none, many = tomorrow.cdf(0), 1 - tomorrow.cdf(20)
    for i, name in enumerate(named):
        print(f"{name}: {low[i]:.0f} to {high[i]:.0f} bikes; none: {none[i]:.0%}, more than 20: {many[i]:.0%}")

    if plot:
        from torchnpn import plots

        week, grid = X[:, 1] == 0, np.linspace(-5, 30, 200)
        curve = counts.predict_dist(np.stack([grid, np.zeros(200)], axis=1))
        bands = {level: curve.interval(level) for level in (0.5, 0.9)}
        labels = {"xlabel": "temperature on a weekday, °C", "ylabel": "bikes"}
        figure = plots.predictive_bands(X[week, 0], y[week], grid, curve.mean, bands, columns=2, **labels)
        plot.write_bytes(plots.png(figure))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="picture to write")
    main(parser.parse_args().plot)
