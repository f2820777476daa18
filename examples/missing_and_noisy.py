"""Rows with gaps, and rows from a worse instrument: say so, and the intervals open.

python examples/missing_and_noisy.py [--plot picture.png]
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import make_friedman1

import torchnpn as npn
from torchnpn import metrics


def main(plot: Path | None) -> None:
    rng = np.random.default_rng(0)
    X, y = make_friedman1(1500, n_features=5, noise=1.0, random_state=0)  # y = 10 sin(π x₁ x₂) + 20 (x₃ - ½)² + …
    X, X_new, y, y_new = X[:500], X[500:], y[:500], y[500:]
    model = npn.NPNRegressor(random_state=0).fit(X, y)

    gaps = rng.random(X_new.shape) < 0.2  # a fifth of the cells is lost
    error = 0.15  # standard deviation of the worse instrument
    read = X_new + rng.normal(0, error, X_new.shape)
    cases = {
        "as measured": (X_new, None),
        "gaps, left as NaN": (np.where(gaps, np.nan, X_new), None),
        "gaps, filled with means": (np.where(gaps, X.mean(axis=0), X_new), None),
        "noisy, with X_variance": (read, error**2),
        "noisy, not told": (read, None),
    }
    shares = {}
    for name, (rows, variance) in cases.items():
        low, high = model.predict_interval(rows, 0.9, X_variance=variance)
        shares[name] = metrics.interval_coverage(low, high, y_new)
        rmse = metrics.rmse(model.predict(rows, X_variance=variance), y_new)
        width = metrics.interval_width(low, high)
        print(f"{name:24} RMSE {rmse:.1f}; 90% intervals hold {shares[name]:.0%}; mean width {width:.1f}")

    if plot:
        from torchnpn import plots

        xlabel = "share of targets in their 90% interval"
        figure = plots.bars(list(shares), np.array(list(shares.values())), xlabel=xlabel, columns=2)
        plot.write_bytes(plots.png(figure))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="picture to write")
    main(parser.parse_args().plot)
