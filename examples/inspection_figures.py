"""The table and the figures of the page on explanations: which measurements matter for the progress of diabetes.

python examples/inspection_figures.py docs/images
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import torchnpn as npn
from torchnpn import inspection, plots


def main(folder: Path) -> None:
    X, y = load_diabetes(return_X_y=True, scaled=False, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = npn.NPNRegressor(random_state=0).fit(X_train, y_train)

    found = inspection.permutation_importance(model, X_test, y_test)
    print("| column | increase of the NLL | change of the mean | change of the std |\n|---|---:|---:|---:|")
    for name, increase, _, mean, std in list(zip(*found, strict=True))[:5]:
        print(f"| {name} | {increase:.3f} | {mean:.1f} | {std:.1f} |")

    along = inspection.partial_dependence(model, X_train, "bmi")
    figure = plots.dependence_plot(*along[1:], xlabel="body mass index", ylabel="progress")
    (folder / "inspection_dependence.png").write_bytes(plots.png(figure))

    row = X_test.iloc[[int(np.argmax(model.predict_variance(X_test).total))]]
    slopes = inspection.sensitivities(model, row)
    shares = inspection.attributions(model, row)
    names, order = np.array(X.columns), np.argsort(-np.abs(shares.mean[0]))
    mean, std = model.predict(row, return_std=True)
    print(
        f"the least certain patient: {mean[0]:.0f} ± {std[0]:.0f}, {shares.mean_change[0]:+.0f} from the mean patient"
    )
    print(f"a body mass index that is higher by one: {slopes.mean[0, 2]:+.1f}")
    figure = plots.bars(names[order], shares.mean[0, order], title="One patient", xlabel="share in the predicted mean")
    (folder / "inspection_row.png").write_bytes(plots.png(figure))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
