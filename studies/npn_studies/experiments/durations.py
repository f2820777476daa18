"""Durations of which some had not ended: three studies that lifelines brings, five folds of each.

Nothing is set for a study, for any method. All see categories as columns of zeros and ones.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.model_selection import KFold

from npn_studies.experiments.experiment import Cell, Experiment, MissingData, Options, Progress, Record
from npn_studies.experiments.tables import Summary, rounded, table
from torchnpn import censored
from torchnpn.estimators import NPNRegressor
from torchnpn.metrics import concordance

Array = NDArray[Any]
FOLDS = 5


class Study(NamedTuple):
    """What is in a table: its words, the column of times, and the column that says whether the end was seen."""

    about: str
    time: str
    observed: str


STUDIES = {
    "gbsg2": Study("relapse of breast cancer, days", "time", "cens"),
    "rossi": Study("arrest after release from prison, weeks", "week", "arrest"),
    "kidney_transplant": Study("death after a transplant of a kidney, days", "time", "death"),
}


class Durations(NamedTuple):
    """Rows of a study: features, when the end was seen or when there had been none, and which of both."""

    X: Array
    time: Array
    observed: Array

    @property
    def frame(self) -> Any:
        """The form of lifelines."""
        import pandas as pd

        return pd.DataFrame(self.X).add_prefix("x").assign(time=self.time, observed=self.observed)


class Answer(NamedTuple):
    """Mean log-likelihood, log P(duration > time) where no end was seen; and what is larger for later ends."""

    log_likelihood: float | None
    later: Array


Method = Callable[[Durations, Durations], Answer]  # learns from the first rows, and is judged by the second


def rows_of(name: str) -> Durations:
    """The whole table.

    Raises:
        MissingData: If lifelines is not installed.
    """
    if importlib.util.find_spec("lifelines") is None:
        raise MissingData("needs lifelines: pip install lifelines")
    import pandas as pd
    from lifelines import datasets

    found, study = getattr(datasets, f"load_{name}")(), STUDIES[name]
    X = pd.get_dummies(found.drop(columns=[study.time, study.observed]), drop_first=True)
    return Durations(*(part.to_numpy(np.float64) for part in (X, found[study.time], found[study.observed])))


def _npn(family: str) -> Method:
    def method(train: Durations, test: Durations) -> Answer:
        model = NPNRegressor(family, device="cpu", random_state=0).fit(train.X, censored(train.time, train.observed))
        logs = model.log_likelihood(test.X, censored(test.time, test.observed))
        return Answer(float(logs.mean()), model.predict_dist(test.X).median)

    return method


def _accelerated(fitter: str) -> Method:
    def method(train: Durations, test: Durations) -> Answer:
        import lifelines

        model = getattr(lifelines, fitter)().fit(train.frame, "time", "observed")
        return Answer(float(model.score(test.frame)), model.predict_median(test.frame).to_numpy())

    return method


def _proportional_hazards(train: Durations, test: Durations) -> Answer:
    """Cox's model; of a continuous time it has no likelihood."""
    from lifelines import CoxPHFitter

    model = CoxPHFitter().fit(train.frame, "time", "observed")
    return Answer(None, -model.predict_log_partial_hazard(test.frame).to_numpy())


def _ngboost(train: Durations, test: Durations) -> Answer:
    from ngboost import NGBSurvival

    model = NGBSurvival(verbose=False, random_state=0).fit(train.X, train.time, train.observed)
    found = model.pred_dist(test.X).params
    ends = stats.lognorm(found["s"], scale=found["scale"])
    logs = np.where(test.observed == 1, ends.logpdf(test.time), ends.logsf(test.time))
    return Answer(float(logs.mean()), np.asarray(ends.median()))


METHODS: dict[str, Method] = {
    "NPN, Weibull": _npn("weibull"),
    "NPN, log-normal": _npn("lognormal"),
    "Weibull AFT": _accelerated("WeibullAFTFitter"),
    "log-normal AFT": _accelerated("LogNormalAFTFitter"),
    "Cox": _proportional_hazards,
    "NGBoost": _ngboost,
}


def cells(options: Options) -> list[Cell]:
    """One for each study and method."""
    names, methods = (("rossi",), ("Weibull AFT", "Cox")) if options.quick else (tuple(STUDIES), tuple(METHODS))
    return [_cell(name, method) for name in names for method in methods]


def _cell(name: str, method: str) -> Cell:
    def run(progress: Progress) -> dict[str, Any]:
        every = rows_of(name)
        found: dict[str, list[float]] = {}
        for fold, parts in enumerate(KFold(FOLDS, shuffle=True, random_state=0).split(every.X)):
            train, test = (Durations(*(column[part] for column in every)) for part in parts)
            logs, later = METHODS[method](train, test)
            found.setdefault("concordance", []).append(rounded(concordance(censored(test.time, test.observed), later)))
            if logs is not None:
                found.setdefault("log_likelihood", []).append(rounded(logs))
            progress((fold + 1) / FOLDS)
        return found

    return Cell(f"{method}/{name}", {"folds": FOLDS}, run, device="cpu")


def section(record: Record) -> str:
    """Both figures of each study."""
    cells = record["cells"]
    methods = [method for method in METHODS if any(key.startswith(f"{method}/") for key in cells)]
    rows = []
    for name in dict.fromkeys(key.partition("/")[2] for key in cells):
        for key, what in {"concordance": "concordance", "log_likelihood": "log-likelihood"}.items():
            told = [cells.get(f"{method}/{name}", {"figures": {}})["figures"].get(key) for method in methods]
            means = [None if one is None else Summary.of(one) for one in told]
            best = max(one.mean for one in means if one is not None)
            texts = ["–" if one is None else f"**{one}**" if one.mean == best else str(one) for one in means]
            rows.append([STUDIES[name].about, what, *texts, _ahead(dict(zip(methods, told, strict=True)))])
    return f"{_INTRODUCTION}\n\n{table(['study', '', *methods, 'ours - theirs'], rows, words=2)}"


def _ahead(told: dict[str, Any]) -> str:
    """How far the better of ours is before the best of the others, fold by fold."""
    sides: tuple[list[list[float]], list[list[float]]] = ([], [])
    for method, figures in told.items():
        if figures is not None:
            sides[not method.startswith("NPN")].append(figures)
    if not all(sides):
        return "–"
    ours, theirs = (max(side, key=np.mean) for side in sides)
    return str(Summary.of([a - b for a, b in zip(ours, theirs, strict=True)]))


_INTRODUCTION = """Harrell's concordance of the order in which ends are predicted, and the mean log-likelihood of rows
that are held out, in five folds with the standard error over them; more is better for both. NPN predicts its default
mixture; the last column is the better of its two families beside the best of the others, fold by fold. The models of
accelerated failure time (AFT) and Cox's are those of lifelines, NGBoost has its log-normal distribution."""

EXPERIMENT = Experiment(
    name="durations",
    title="Durations of which some had not ended",
    minutes=5,
    cells=cells,
    section=section,
    in_parts=True,
)
