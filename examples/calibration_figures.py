"""The table and the figures of the page on calibration: two models that are wrong, before and after.

python examples/calibration_figures.py docs/images
"""

import sys
from pathlib import Path

import numpy as np

import torchnpn as npn
from torchnpn import metrics, plots


def skewed(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise that goes one way only, more of it where the second feature is large."""
    X = rng.normal(size=(rows, 3))
    return X, X[:, 0] + np.exp(0.5 * X[:, 1]) * rng.exponential(size=rows)


def wide(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A hundred features of which two matter."""
    X = rng.normal(size=(rows, 100))
    return X, X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=rows)


def main(folder: Path) -> None:
    print("| model | `calibrate` | in the 90% interval | below | above | width | NLL | CRPS |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for draw, rows in ((skewed, 500), (wide, 200)):
        rng = np.random.default_rng(0)
        (X, y), (X_new, y_new) = draw(rng, rows), draw(rng, 2_000)
        for way in (None, "split", "cross"):
            model = npn.NPNRegressor(calibrate=way, max_epochs=150, random_state=0).fit(X, y)
            predicted = model.predict_dist(X_new)
            low, high = predicted.interval(0.9)
            below, above = np.mean(y_new < low), np.mean(y_new > high)
            scores = metrics.interval_width(low, high), -predicted.log_prob(y_new).mean(), predicted.crps(y_new).mean()
            name, shown = f"{draw.__name__}, {rows} rows", " | ".join(f"{score:.3g}" for score in scores)
            print(f"| {name} | {way} | {1 - below - above:.1%} | {below:.1%} | {above:.1%} | {shown} |", flush=True)
            if draw is skewed and way != "split":
                figure = plots.calibration_plot(predicted.pit(y_new))
                (folder / f"calibration_{'before' if way is None else 'after'}.png").write_bytes(plots.png(figure))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
