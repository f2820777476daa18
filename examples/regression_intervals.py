"""Intervals for the progress of diabetes in a year: 442 patients, ten measurements each (bundled with scikit-learn).

python examples/regression_intervals.py [--plot picture.png]
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import torchnpn as npn
from torchnpn import metrics


def main(plot: Path | None) -> None:
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = npn.NPNRegressor(random_state=0).fit(X_train, y_train)

    print(f"R² on {len(y_test)} patients it has not seen: {model.score(X_test, y_test):.2f}")
    for level in (0.5, 0.8, 0.95):
        low, high = model.predict_interval(X_test, level)
        inside, width = metrics.interval_coverage(low, high, y_test), metrics.interval_width(low, high)
        print(f"{level:.0%} intervals hold {inside:.0%} of the targets; mean width {width:.0f}")

    parts = model.predict_variance(X_test)
    order = np.argsort(parts.total)
    for name, i in (("most", order[0]), ("least", order[-1])):
        known, noise = np.sqrt(parts.epistemic[i]), np.sqrt(parts.aleatoric[i])
        print(f"the {name} certain patient: ± {known:.0f} about the function, ± {noise:.0f} of noise")

    if plot:
        from torchnpn import plots

        figure = plots.prediction_intervals(
            y_test, model.predict(X_test), *model.predict_interval(X_test, 0.9), name="progress"
        )
        plot.write_bytes(plots.png(figure))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="picture to write")
    main(parser.parse_args().plot)
