"""What will the repair cost? Positive amounts whose spread grows with their size.

python examples/amounts.py [--plot picture.png]
"""

import argparse
from pathlib import Path

import numpy as np

import torchnpn as npn
from torchnpn import metrics


def repairs(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Made data: cars of 0 to 15 years, and bills that are off by the same factor at every age."""
    age = rng.uniform(0, 15, n)
    return age[:, None], 100 * np.exp(0.15 * age) * rng.gamma(3, 1 / 3, n)


def main(plot: Path | None) -> None:
    rng = np.random.default_rng(0)
    (X, y), (X_new, y_new) = repairs(400, rng), repairs(1000, rng)
    amounts = npn.NPNRegressor("gamma", max_epochs=250, random_state=0).fit(X, y)
    real = npn.NPNRegressor("gaussian", max_epochs=250, random_state=0).fit(X, y)

    young = X_new[:, 0] < 5
    for model in (amounts, real):
        low, high = model.predict_interval(X_new, 0.9)
        all_cars = metrics.interval_coverage(low, high, y_new)
        new_cars = metrics.interval_coverage(low[young], high[young], y_new[young])
        nll = -model.log_likelihood(X_new, y_new).mean()
        print(f"{model.family:8}: 90% intervals hold {all_cars:.0%}, of young cars {new_cars:.0%}; NLL {nll:.2f}")
        print(f"{'':8}  {(low < 0).mean():.0%} of them say that a bill may be negative")

    low, middle, high = amounts.predict_quantile([[10.0]], [0.05, 0.5, 0.95])[0]
    above = 1 - amounts.predict_dist([[10.0]]).cdf(1000)[0]
    print(f"ten years old: {low:.0f} to {high:.0f}, as often above as below {middle:.0f}; above 1000: {above:.0%}")

    if plot:
        from torchnpn import plots

        grid = np.linspace(0, 15, 200)
        curve = amounts.predict_dist(grid[:, None])
        bands = {level: curve.interval(level) for level in (0.5, 0.9)}
        labels = {"xlabel": "age of the car, years", "ylabel": "bill"}
        figure = plots.predictive_bands(X[:, 0], y, grid, curve.mean, bands, columns=2, **labels)
        plot.write_bytes(plots.png(figure))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="picture to write")
    main(parser.parse_args().plot)
