"""`NPNRegressor` at its defaults beside NGBoost, scikit-learn's linear models and a plain network at theirs.

python benchmarks/estimators.py                     # twenty minutes on one core; writes studies/results/estimators.json
python benchmarks/estimators.py --quick             # the same on a few rows, without a record
python benchmarks/estimators.py --render PAGE       # the table of the record into a page

Counts and amounts are those of the motor policies (`npn data` says where to put them), with the logarithm of the
exposure as a feature of every model. Energy, concrete and wine are small real tables with published splits: nearly
free of noise, with some, and mostly noise.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torchnpn as npn
from benchmarks import records, rivals, summaries
from benchmarks.summaries import Summary
from torchnpn.datasets import Dataset, Split

Array = NDArray[Any]
RECORD = records.RESULTS / "estimators.json"
UCI = ("concrete", "energy", "wine")
RANDOM_SPLITS, PUBLISHED_SPLITS, TEST_SHARE = 5, 10, 0.2
LEVEL = 0.9
QUICK_ROWS, QUICK_SPLITS, QUICK = 150, 2, rivals.Budget(epochs=5, trees=10, iterations=10)
FIGURES = ("nll", "crps", "coverage", "fit_s", "predict_s")


class Problem(NamedTuple):
    """A table, what kind of target it has ("counts", "amounts" or "numbers"), and its splits."""

    name: str
    kind: str
    X: Array
    y: Array
    splits: tuple[Split, ...]


def problems() -> Iterator[Problem]:
    """All tables of the study."""
    motor = npn.datasets.load("motor-insurance")
    X, amounts = one_hot(motor), motor.targets["amounts"]
    claim = amounts > 0
    yield Problem("claim counts", "counts", X, motor.targets["counts"], random_splits(len(X)))
    yield Problem("claim amounts", "amounts", X[claim], amounts[claim], random_splits(int(claim.sum())))
    for name in UCI:
        data = npn.datasets.load(name)
        yield Problem(name, "numbers", data.X, data.y, data.splits[:PUBLISHED_SPLITS])


def one_hot(data: Dataset) -> Array:
    """Numbers as they are but the exposure as its logarithm, and one column for each category."""
    columns = []
    for name, column in zip(data.feature_names, data.X.T, strict=True):
        if name in data.categories:
            columns.append(np.eye(len(data.categories[name]))[column.astype(int)])
        else:
            columns.append((np.log(column) if name == "exposure" else column)[:, None])
    return np.hstack(columns)


def random_splits(rows: int) -> tuple[Split, ...]:
    """Splits by seeds 0, 1, …, the same for all models."""
    orders = [np.random.default_rng(seed).permutation(rows) for seed in range(RANDOM_SPLITS)]
    test = round(TEST_SHARE * rows)
    return tuple(Split(order[test:], order[:test]) for order in orders)


def few_rows(problem: Problem) -> Problem:
    """The first rows of the first splits, for a quick look."""
    return problem._replace(
        splits=tuple(Split(s.train[:QUICK_ROWS], s.test[:QUICK_ROWS]) for s in problem.splits[:QUICK_SPLITS])
    )


def measure(problem: Problem, budget: rivals.Budget) -> Iterator[dict[str, Any]]:
    """One row of figures for each split and model; times are process CPU time."""
    for number, (train, test) in enumerate(problem.splits):
        for name, model in rivals.MODELS[problem.kind].items():
            start = time.process_time()
            predict = model(problem.X[train], problem.y[train], number, budget)
            fitted = time.process_time()
            forecast, y = predict(problem.X[test]), problem.y[test]
            predicted = time.process_time()
            low, high = (forecast.quantile(q) for q in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
            figures = (
                -float(np.mean(forecast.log_prob(y))),
                float(np.mean(forecast.crps(y))),
                npn.metrics.interval_coverage(low, high, y),
                fitted - start,
                predicted - fitted,
            )
            rounded = map(summaries.rounded, figures)
            yield {"set": problem.name, "split": number, "model": name, **dict(zip(FIGURES, rounded, strict=True))}


def study(problems: Iterable[Problem], budget: rivals.Budget) -> dict[str, Any]:
    """The record of a run in one thread."""
    start, sets, rows = time.perf_counter(), {}, []
    with threadpool_limits(1):  # torch's threads too
        for problem in problems:
            train, test = problem.splits[0]
            sets[problem.name] = {
                "kind": problem.kind,
                "columns": problem.X.shape[1],
                "train_rows": len(train),
                "test_rows": len(test),
                "splits": len(problem.splits),
            }
            for row in measure(problem, budget):
                print(*row.values(), sep="  ", flush=True)
                rows.append(row)
    configuration = {
        "tuning": "none: every model is its library's default, with what stands here",
        "sets": sets,
        "random_splits": f"{1 - TEST_SHARE:.0%} of the rows to train on, by numpy.random.default_rng(split)",
        "published_splits": "the first ones of Hernández-Lobato and Adams (2015)",
        "seed": "the number of the split",
        "features": "for all models alike: categories one-hot, log exposure; networks and linear models scale them",
        "hidden": rivals.HIDDEN,
        "budget": budget._asdict(),
        "linear_models": f"alpha = {rivals.PENALTY}, for 1.0 leaves little but a constant; gamma shape by likelihood",
        "plain_network": f"targets standardised; noise from {rivals.HELD_OUT:.0%} of the training rows, kept from it",
        "rounded_gaussian": "a count is max(0, z to the nearest whole number), z Gaussian",
        "interval_level": LEVEL,
        "clock": "process CPU time, one thread; prediction is of the whole distribution for all test rows",
    }
    packages = ("torchnpn", "scikit-learn", "ngboost", "scoringrules")
    circumstances = records.circumstances()
    circumstances["versions"] |= {name: importlib.metadata.version(name) for name in packages}
    return {
        "configuration": configuration,
        **circumstances,
        "duration_s": round(time.perf_counter() - start),
        "rows": rows,
    }


def render(record: dict[str, Any]) -> str:
    """A markdown table: mean ± standard error over splits, and the paired difference of the NLL to the first model."""
    head = ("set", "model", "NLL", "NLL less NPN's", "CRPS", "90 % interval holds", "fit, s", "predict, ms")
    lines = []
    for name, about in record["configuration"]["sets"].items():
        first, *_ = models = list(rivals.MODELS[about["kind"]])
        figures = {
            model: {
                key: np.array([row[key] for row in record["rows"] if (row["set"], row["model"]) == (name, model)])
                for key in FIGURES
            }
            for model in models
        }
        for model, ours in figures.items():
            less = "" if model == first else str(Summary.of(ours["nll"] - figures[first]["nll"]))
            judged = (str(Summary.of(ours["nll"])), less, str(Summary.of(ours["crps"])))
            coverage, fit, predict = (ours[key].mean() for key in ("coverage", "fit_s", "predict_s"))
            lines.append((name, model, *judged, f"{100 * coverage:.1f} %", *map(_two_digits, (fit, 1e3 * predict))))
    return summaries.table(head, lines, words=2)


def _two_digits(figure: float) -> str:
    return f"{figure:.0f}" if figure >= 10 else f"{figure:.2g}"


def with_table(page: str, record: dict[str, Any]) -> str:
    """The page with the table between its two comments rendered from `record`."""
    return summaries.with_table(page, "estimators.py", render(record))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rows, trees and epochs; no record")
    parser.add_argument("--render", type=Path, metavar="PAGE", help="only render the record into a page")
    options = parser.parse_args(arguments)
    if options.render:
        return records.render(options.render, RECORD, with_table)
    if options.quick:
        record = study(map(few_rows, problems()), QUICK)
    else:
        record = study(problems(), rivals.Budget())
        records.write_json(RECORD, record)
    print(render(record))


if __name__ == "__main__":
    main()
