"""Read digits, and hand the uncertain ones to a person: 500 to learn from, 1297 to read (bundled with scikit-learn).

python examples/classification_rejection.py [--plot picture.png]
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import torchnpn as npn
from torchnpn import metrics


def main(plot: Path | None) -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=500, stratify=y, random_state=0)
    model = npn.NPNClassifier(random_state=0).fit(X_train, y_train)

    entropy = model.predict_dist(X_test).entropy  # in nats: 0 where the answer is certain, log 10 = 2.3 for a guess
    right = model.predict(X_test) == y_test
    order = np.argsort(entropy)
    for share in (1.0, 0.9, 0.8, 0.7):
        read = order[: round(share * len(order))]
        print(f"reads the most certain {share:4.0%}: {right[read].mean():6.1%} right, {np.sum(~right[read]):2d} errors")

    shuffled = np.random.default_rng(0).permuted(X_test, axis=1)  # same ink, no digit
    nonsense = model.predict_dist(shuffled).entropy
    most = np.log(10)
    print(f"mean uncertainty: digits {entropy.mean():.1f}, shuffled pixels {nonsense.mean():.1f} of at most {most:.1f}")
    print(f"a shuffled image is the more uncertain of a pair in {metrics.ood_auroc(entropy, nonsense):.0%} of cases")

    if plot:
        from torchnpn import plots

        kept = {"NPNClassifier": metrics.risk_coverage(right, entropy)}
        plot.write_bytes(plots.png(plots.risk_coverage_plot(kept, columns=2)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="picture to write")
    main(parser.parse_args().plot)
