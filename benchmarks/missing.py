"""A fifth of the cells removed: `NPNRegressor` on what is left, and after the gaps are filled.

python benchmarks/missing.py                     # ten minutes on one core; writes studies/results/missing.json
python benchmarks/missing.py --quick             # the same on a few rows, without a record
python benchmarks/missing.py --render PAGE       # the table of the record into a page

Cells go completely at random, in training and test rows alike. The two sets were decided on before any result: the
features of energy say much about each other, which an imputer can use and a mean and variance by feature cannot; those
of concrete say little. `missing="conditional"` was added after the first results, because of them.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torchnpn as npn
from benchmarks import records, summaries
from benchmarks.summaries import Summary
from torchnpn.datasets import Dataset, Split

Array = NDArray[Any]
RECORD = records.RESULTS / "missing.json"
SETS, SPLITS, SHARE = ("concrete", "energy"), 10, 0.2
QUICK_ROWS, QUICK_SPLITS, QUICK_EPOCHS = 150, 2, 5
FIGURES = ("nll", "rmse")
REFERENCE, CONDITIONAL = "NaN as it is", 'NaN, missing="conditional"'


def as_it_is(train: Array, test: Array, seed: int) -> tuple[Array, Array]:
    return train, test


def mean_imputed(train: Array, test: Array, seed: int) -> tuple[Array, Array]:
    imputer = SimpleImputer().fit(train)
    return imputer.transform(train), imputer.transform(test)


def iteratively_imputed(train: Array, test: Array, seed: int) -> tuple[Array, Array]:
    imputer = IterativeImputer(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # ten rounds, its default, and no more
        return imputer.fit_transform(train), imputer.transform(test)


WAYS: dict[str, Callable[[Array, Array, int], tuple[Array, Array]]] = {
    REFERENCE: as_it_is,
    CONDITIONAL: as_it_is,
    "mean imputation": mean_imputed,
    "IterativeImputer": iteratively_imputed,
}
COMPLETE = "no cell removed"  # what the gaps cost


def without(X: Array, share: float, seed: int) -> Array:
    """X with each cell NaN with probability `share`."""
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def few_rows(data: Dataset) -> Dataset:
    """The first rows of the first splits, for a quick look."""
    splits = tuple(Split(s.train[:QUICK_ROWS], s.test[:QUICK_ROWS]) for s in data.splits[:QUICK_SPLITS])
    return Dataset(data.name, data.X, data.y, data.feature_names, data.targets, splits=splits)


def measure(data: Dataset, epochs: int | None) -> Iterator[dict[str, Any]]:
    """NLL and RMSE of each split and way."""
    for number, (train, test) in enumerate(data.splits[:SPLITS]):
        gaps = without(data.X, SHARE, number)
        tables = {name: way(gaps[train], gaps[test], number) for name, way in WAYS.items()}
        tables[COMPLETE] = data.X[train], data.X[test]
        for name, (X_train, X_test) in tables.items():
            missing = "conditional" if name == CONDITIONAL else "marginal"
            model = npn.NPNRegressor(missing=missing, max_epochs=epochs, device="cpu", random_state=number)
            model.fit(X_train, data.y[train])
            y, predictive = data.y[test], model.predict_dist(X_test)
            figures = -float(np.mean(predictive.log_prob(y))), npn.metrics.rmse(predictive.mean, y)
            rounded = map(summaries.rounded, figures)
            yield {"set": data.name, "split": number, "way": name, **dict(zip(FIGURES, rounded, strict=True))}


def study(sets: Iterable[Dataset], epochs: int | None = None) -> dict[str, Any]:
    """The record of a run in one thread."""
    start, names, rows = time.perf_counter(), [], []
    with threadpool_limits(1):  # torch's threads too
        for data in sets:
            names.append(data.name)
            for row in measure(data, epochs):
                print(*row.values(), sep="  ", flush=True)
                rows.append(row)
    configuration = {
        "sets": names,
        "chosen_because": "features that say much about each other (energy) and little (concrete); before any result",
        "share_removed": SHARE,
        "removed": "completely at random by numpy.random.default_rng(split), in training and test rows",
        "splits": "the first ones of Hernández-Lobato and Adams (2015)",
        "seed": "the number of the split",
        "tuning": "none: NPNRegressor, SimpleImputer and IterativeImputer are at their defaults",
        "epochs": epochs,
    }
    circumstances = records.circumstances()
    circumstances["versions"] |= {name: importlib.metadata.version(name) for name in ("torchnpn", "scikit-learn")}
    return {
        "configuration": configuration,
        **circumstances,
        "duration_s": round(time.perf_counter() - start),
        "rows": rows,
    }


def render(record: dict[str, Any]) -> str:
    """A markdown table: mean ± standard error over splits, and paired differences to NaN as it is."""
    head = ("set", "gaps", *(title for key in FIGURES for title in (key.upper(), f"{key.upper()} less NaN's")))
    lines = []
    for name in record["configuration"]["sets"]:
        figures = {
            (way, key): np.array([row[key] for row in record["rows"] if (row["set"], row["way"]) == (name, way)])
            for way in (*WAYS, COMPLETE)
            for key in FIGURES
        }
        for way in (*WAYS, COMPLETE):
            cells = []
            for key in FIGURES:
                ours, reference = figures[way, key], figures[REFERENCE, key]
                cells += [str(Summary.of(ours)), "" if way == REFERENCE else str(Summary.of(ours - reference))]
            lines.append((name, way, *cells))
    return summaries.table(head, lines, words=2)


def with_table(page: str, record: dict[str, Any]) -> str:
    """The page with the table between its two comments rendered from `record`."""
    return summaries.with_table(page, "missing.py", render(record))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rows and epochs; no record")
    parser.add_argument("--render", type=Path, metavar="PAGE", help="only render the record into a page")
    options = parser.parse_args(arguments)
    if options.render:
        return records.render(options.render, RECORD, with_table)
    sets = map(npn.datasets.load, SETS)
    if options.quick:
        record = study(map(few_rows, sets), QUICK_EPOCHS)
    else:
        record = study(sets)
        records.write_json(RECORD, record)
    print(render(record))


if __name__ == "__main__":
    main()
