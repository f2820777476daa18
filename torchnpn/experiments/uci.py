"""Nine regression tables with their published splits: NPN, baselines run here, and what others have printed.

NPN is the default `NPNRegressor`, with nothing set for any table; its mixture is of five such. They train in processes
of their own, one a core, because a network this small is done on a CPU before a GPU has begun. The baselines train on
the device, all splits and settings of a table at once. Settings that depend on the table are chosen for each split by
rows held out of its training part.
"""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from torchnpn import datasets
from torchnpn.baselines import ProbabilisticBackprop, Settings
from torchnpn.baselines.predicted import PredictedReal
from torchnpn.baselines.tuned import DropoutGrid
from torchnpn.estimators import NPNRegressor
from torchnpn.experiments.experiment import Cell, Experiment, Options, Progress
from torchnpn.experiments.tables import rounded
from torchnpn.experiments.uci_ensemble import EnsembleGrid
from torchnpn.experiments.uci_page import section

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
        data = datasets.load(name)
        train, test = (np.stack(part) for part in zip(*data.splits[:splits], strict=True))
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


class Job(NamedTuple):
    """One fit of the default estimator."""

    split: int
    member: int
    x: Array
    y: Array
    x_test: Array
    settings: dict[str, Any]


def fit(job: Job) -> tuple[Job, Array, Array, float]:
    """The job without its arrays, mean and variance for each test row, and seconds; in a process of its own."""
    with threadpool_limits(1):
        torch.set_num_threads(1)
        start = time.perf_counter()
        model = NPNRegressor(random_state=MEMBERS * job.split + job.member, **job.settings).fit(job.x, job.y)
        seconds = time.perf_counter() - start
        mean, std = model.predict(job.x_test, return_std=True)
    empty = np.empty(0)
    return job._replace(x=empty, y=empty, x_test=empty), mean, std**2, seconds


@functools.cache
def _pool() -> Executor:
    """Kept for all tables: a process takes seconds to start."""
    return ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"))


def npn(task: Task, settings: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """What one network reaches, the mean over the members of a split each judged alone; and their mixture."""
    predicted, seconds = members(task, settings, MEMBERS, progress)
    alone = [PredictedReal(*(part[k : k + 1] for part in predicted)) for k in range(MEMBERS)]
    figures = [judged(each, task.y_test, task.scale) for each in alone]
    single = {key: [rounded(x) for x in np.mean([one[key] for one in figures], 0).tolist()] for key in figures[0]}
    mixture = judged(predicted, task.y_test, task.scale)
    return {"single": single, "mixture": mixture, "seconds_a_fit": seconds, "trials": 1}


def members(task: Task, settings: dict[str, Any], count: int, progress: Progress) -> tuple[PredictedReal, float]:
    """Predictions for the test rows of so many networks a split, in units of `task.scale`, and seconds a fit."""
    splits, rows = task.y_test.shape[:2]
    x, y, x_test = (part.double().numpy() for part in (task.x, task.y[..., 0], task.x_test))
    jobs = [Job(i, k, x[i], y[i], x_test[i], settings) for i in range(splits) for k in range(count)]
    moments, seconds = torch.empty(2, count, splits, rows, 1, dtype=torch.float64), []
    for done, future in enumerate(as_completed([_pool().submit(fit, job) for job in jobs]), 1):
        job, mean, variance, spent = future.result()
        moments[:, job.member, job.split, :, 0] = torch.from_numpy(np.stack([mean, variance]))
        seconds.append(spent)
        progress(done / len(jobs))
    return PredictedReal(*moments), rounded(float(np.mean(seconds)))


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
        where = settings if name == "npn" else {**settings, "device": str(options.device)}
        return method(Task.of(table, splits), where, progress)

    alone = {"single": "mean of members"} if name == "npn" else {}
    about = {**settings, "splits": splits or "all", "members": MEMBERS, **alone}
    return Cell(f"{name}/{table}", about, run, device="cpu" if name == "npn" else None)


EXPERIMENT = Experiment(
    name="uci",
    title="Nine regression tables, published splits",
    place="Section 4.2",
    data=SETS,
    minutes=10,
    cells=cells,
    section=section,
)
