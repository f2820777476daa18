"""The figures of the page on uncertainty: two fits with a gap in the data, and the calibration of intervals.

python examples/uncertainty_figures.py docs/images
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold

import torchnpn as npn
from torchnpn import plots


def gap() -> Figure:
    """120 points of sin 2x with noise 0.1, none of them between -1 and 1."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-3, -1, 60), rng.uniform(1, 3, 60)])
    y = np.sin(2 * x) + rng.normal(0, 0.1, x.size)
    grid = np.linspace(-5, 5, 300)
    settings = {
        "defaults": {},
        "two layers, kl_weight=0.1": {"hidden": (50, 50), "kl_weight": 0.1},
    }
    bands = []
    for name, changed in settings.items():
        model = npn.NPNRegressor(random_state=0, **changed).fit(x[:, None], y)
        mean, std = model.predict(grid[:, None], return_std=True)
        bands.append(plots.Band(name, mean, std))
        epistemic = np.sqrt(model.predict_variance([[-2.0], [0.0], [5.0]]).epistemic)
        print(f"{name}: epistemic std at the points, in the gap and at 5: {np.round(epistemic, 2)}")
    figure = plots.regression_bands(x, y, grid, np.sin(2 * grid), bands)
    for axes in figure.axes:
        axes.set_ylim(-2.5, 2.5)
    return figure


def calibration() -> Figure:
    """Each of the 442 patients of the diabetes set predicted by a model that has not seen them."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    pit = np.empty(len(y))
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        model = npn.NPNRegressor(max_epochs=200, random_state=0).fit(X[train], y[train])
        pit[test] = model.predict_dist(X[test]).cdf(y[test])
    print(f"90% intervals hold {np.mean(np.abs(pit - 0.5) < 0.45):.0%} of the patients")
    return plots.calibration_plot(pit)


def main(folder: Path) -> None:
    for make in (gap, calibration):
        (folder / f"uncertainty_{make.__name__}.png").write_bytes(plots.png(make()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
