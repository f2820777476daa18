"""Nine regression tables with their published splits: NPN, baselines run here, and what others have printed.

NPN is the default `NPNRegressor`, with nothing set for any table; its mixture is of five such. All networks of a table
train at once on the device, and so do the baselines'. Settings of theirs that depend on the table are chosen for each
split by rows held out of its training part.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from npn_studies.baselines import ProbabilisticBackprop, Settings
from npn_studies.baselines.predicted import PredictedReal
from npn_studies.baselines.tuned import DropoutGrid
from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress
from npn_studies.experiments.tables import rounded
from npn_studies.experiments.uci_ensemble import EnsembleGrid
from npn_studies.experiments.uci_page import headline, section
from torchnpn import datasets
from torchnpn.estimators import NPNRegressor

Array = NDArray[Any]
SETS = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht")
QUICK_SETS = ("boston", "yacht")
MEMBERS = 5
HIDDEN = {"protein": 100}  # units of the baselines' one hidden layer, as published; 50 for the others


class Task(NamedTuple):
    """All splits of a table, (splits, rows, …); inputs and targets in standard units of each training part."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    scale: Tensor  # (splits, 1, 1), standard deviation of y

    @classmethod
    def of(cls, name: str, splits: int | None) -> Task:
        """The first so many splits, or all."""
        return cls.of_rows(name, *(np.stack(part) for part in zip(*datasets.load(name).splits[:splits], strict=True)))

    @classmethod
    def of_rows(cls, name: str, train: Array, test: Array) -> Task:
        """Of rows to train on and to test on, (splits, rows) of a table."""
        data = datasets.load(name)
        columns = [torch.from_numpy(column) for column in (data.X, data.y[:, None])]
        (x, y), (x_test, y_test) = ([column[torch.from_numpy(rows)] for column in columns] for rows in (train, test))
        (x, x_test, _), (y, y_test, scale) = _standard(x, x_test), _standard(y, y_test)
        return cls(x.float(), y.float(), x_test.float(), y_test, scale)


def _standard(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Both in units of the first, and the unit; a constant column has the unit 1."""
    mean, std = train.mean(1, keepdim=True), train.std(1, keepdim=True, correction=0)
    std = torch.where(std > 1e-12 * mean.abs(), std, 1.0)
    return (train - mean) / std, (test - mean) / std, std


def judged(predicted: PredictedReal, y: Tensor, scale: Tensor) -> dict[str, list[float]]:
    """RMSE and mean log-likelihood of each split, in the table's own unit, for predictions in units of `scale`."""
    means, variances = (part.double().cpu() for part in predicted)
    predicted = PredictedReal(means, variances)
    errors = scale[:, 0] * (predicted.mean - y).square().mean(1).sqrt()
    logs = predicted.log_prob(y).mean(1, keepdim=True) - scale[:, 0].log()
    return {
        "rmse": [rounded(value) for value in errors[:, 0].tolist()],
        "log_likelihood": [rounded(value) for value in logs[:, 0].tolist()],
    }


# NPN ---------------------------------------------------------------------------------------------------------------


def npn(task: Task, settings: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """What one network reaches, the mean over the members of a split each judged alone; and their mixture."""
    predicted, seconds = members(task, settings, MEMBERS, progress)
    alone = [PredictedReal(*(part[k : k + 1] for part in predicted)) for k in range(MEMBERS)]
    figures = [judged(each, task.y_test, task.scale) for each in alone]
    single = {key: [rounded(x) for x in np.mean([one[key] for one in figures], 0).tolist()] for key in figures[0]}
    mixture = judged(predicted, task.y_test, task.scale)
    return {"single": single, "mixture": mixture, "seconds_a_fit": seconds, "trials": 1}


def members(task: Task, settings: dict[str, Any], count: int, progress: Progress) -> tuple[PredictedReal, float]:
    """Predictions for the test rows of so many networks a split, in units of `task.scale`, and seconds a network.

    All networks of all splits are one ensemble, of which each sees the rows of its split: these lie one after the
    other, and are in standard units, so that all of them are, too.
    """
    splits, rows = task.x.shape[:2]
    network_of = np.arange(splits * count).reshape(splits, count)
    seen = np.arange(splits * rows).reshape(splits, rows).repeat(count, axis=0)
    x, y = (part.double().flatten(0, 1).numpy() for part in (task.x, task.y))
    start = time.perf_counter()
    model = NPNRegressor(n_estimators=splits * count, random_state=0, **settings)
    model.fit(x, y[:, 0], callbacks=[lambda record: progress(record.share)], subsets=seen)
    seconds = rounded((time.perf_counter() - start) / (splits * count))
    found = [model.predict_members(x_test.double().numpy()) for x_test in task.x_test]
    own = [np.stack(each)[:, own] for each, own in zip(found, network_of, strict=True)]
    return PredictedReal(*torch.from_numpy(np.stack(own, 2))[..., None]), seconds  # (count, splits, rows, 1)


# Baselines ---------------------------------------------------------------------------------------------------------


def dropout(task: Task, settings: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """MC dropout, rate and noise from a grid by rows held out."""
    grid = DropoutGrid(
        _settings(task, settings, settings["steps"]), settings["rates"], settings["noise_stds"], samples=100
    )
    best = grid.chosen(task.x, task.y)
    progress(0.5)
    figures = judged(best.fit(task.x, task.y).predict(task.x_test), task.y_test, task.scale)  # type: ignore[arg-type]
    chosen = {"rate": best.network.rate, "noise_std": best.network.task.noise_std}  # type: ignore[attr-defined]
    return {**figures, "chosen": chosen, "trials": len(settings["rates"]) * len(settings["noise_stds"])}


def ensemble(task: Task, settings: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """A deep ensemble of five, steps and learning rate from a grid by rows held out."""
    plans = [_settings(task, settings, steps) for steps in settings["steps"]]
    grid = EnsembleGrid(plans, settings["learning_rates"], MEMBERS)
    predicted, chosen = grid.tuned(task.x, task.y, task.x_test)
    return {
        **judged(predicted, task.y_test, task.scale),
        "chosen": [[plans[plan].epochs, rate] for plan, rate in chosen],
        "trials": len(plans) * len(settings["learning_rates"]),
    }


def pbp(task: Task, settings: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Probabilistic back-propagation; nothing to choose."""
    plan = Settings(hidden=(settings["hidden"],), epochs=settings["epochs"], device=settings["device"])
    predicted = ProbabilisticBackprop(plan).fit(task.x, task.y).predict(task.x_test)
    return {**judged(predicted, task.y_test, task.scale), "trials": 1}  # type: ignore[arg-type]


def _settings(task: Task, settings: dict[str, Any], steps: int) -> Settings:
    """Of networks that take so many steps."""
    in_epoch = math.ceil(task.x.shape[1] / settings["batch_size"])
    return Settings(
        hidden=(settings["hidden"],),
        epochs=math.ceil(steps / in_epoch),
        batch_size=settings["batch_size"],
        learning_rate=settings.get("learning_rate", 1e-3),
        schedule="cosine",
        device=settings["device"],
    )


Method = Callable[[Task, dict[str, Any], Progress], dict[str, Any]]
METHODS: dict[str, tuple[Method, dict[str, Any], dict[str, Any]]] = {  # with settings, and those of a quick run
    "npn": (npn, {}, {"max_epochs": 4}),
    "dropout": (
        dropout,
        {
            "batch_size": 128,
            "steps": 20_000,
            "learning_rate": 1e-3,
            "rates": [0.005, 0.01, 0.05, 0.1],
            "noise_stds": [0.8, 0.6, 0.4, 0.25, 0.15, 0.05],
        },
        {"steps": 40, "rates": [0.05], "noise_stds": [0.4, 0.2]},
    ),
    "ensemble": (
        ensemble,
        {"batch_size": 100, "steps": [500, 2_000, 10_000], "learning_rates": [1e-3, 1e-2]},
        {"steps": [20, 40], "learning_rates": [1e-2]},
    ),
    "pbp": (pbp, {"epochs": 40}, {"epochs": 1}),
}


def cells(options: Options) -> list[Cell]:
    """One for each table and method."""
    splits = options.seeds or (2 if options.quick else None)
    return [
        planned(method, name, splits, options) for name in (QUICK_SETS if options.quick else SETS) for method in METHODS
    ]


def planned(name: str, table: str, splits: int | None, options: Options) -> Cell:
    """The work of one method on one table."""
    method, full, quick = METHODS[name]
    settings = {**full, **quick} if options.quick else full
    if name != "npn":
        settings = {**settings, "hidden": HIDDEN.get(table, 50)}

    def run(progress: Progress) -> dict[str, Any]:
        return method(Task.of(table, splits), {**settings, "device": str(options.device)}, progress)

    about = {**settings, "splits": splits or "all", "members": MEMBERS}
    return Cell(f"{name}/{table}", about, run)


EXPERIMENT = Experiment(
    name="uci",
    title="Nine regression tables, published splits",
    place="Section 4.1",
    data=SETS,
    quick_data=QUICK_SETS,
    minutes=8,
    cells=cells,
    section=section,
    headline=headline,
)
