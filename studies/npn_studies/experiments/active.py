"""Active learning: which rows to label next (the paper's introduction names it as a use of good uncertainty).

A network learns from a few labelled rows, scores the rest, and the rows with the highest scores are labelled next. One
model serves all rules, several networks that differ in their start, so that only the rule differs: chance; the part of
the variance that the weights' distributions explain (epistemic, mean over networks); the entropy of the prediction;
and the disagreement of the networks' means, which needs no distribution of weights at all. Nothing was tuned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from npn_studies.experiments.digit_methods import outputs
from npn_studies.experiments.digits import CLASSES, digits
from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.tables import Summary, rounded, table
from torchnpn import NPNRegressor, datasets, nn
from torchnpn.likelihoods import ScaledSoftmax
from torchnpn.priors import IsotropicGaussian
from torchnpn.training import Recipe, constant, train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]
RULES = {
    "random": "chance",
    "epistemic": "epistemic variance",
    "entropy": "entropy",
    "disagreement": "disagreement of networks",
}
TASKS = {"concrete": "concrete, RMSE", "energy": "energy, RMSE", "mnist": "MNIST, error in %"}
SEEDS = 3
TABLE: dict[str, Any] = {"start": 20, "batch": 10, "rounds": 6, "members": 3, "hidden": [50], "epochs": 500}
DIGITS: dict[str, Any] = {
    "start": 20,
    "batch": 20,
    "rounds": 9,
    "members": 3,
    "hidden": [100],
    "pool": 3_000,
    "test": 2_000,
    "steps": 300,
    "learning_rate": 1e-3,
    "dropout": 0.2,
    "prior_precision": 1_000.0,
    "kl_weight": 4e-4,
}
QUICK = {"rounds": 1, "hidden": [8], "epochs": 4, "steps": 10, "pool": 200, "test": 200}


class Scores(NamedTuple):
    """What networks say of rows: the mean prediction, and a number by each rule, (rows,)."""

    predicted: Array
    by_rule: dict[str, Array]


class Problem(NamedTuple):
    """Rows that can be labelled, and the error on others.

    Attributes:
        size: Rows in the pool.
        learn: From numbers of labelled rows and a seed to a function that scores rows of the pool, and the test error.
    """

    size: int
    learn: Callable[[Array, int], tuple[Scores, float]]


def of_table(name: str, settings: dict[str, Any], seed: int) -> Problem:
    """A published split of a regression table."""
    data = datasets.load(name)
    train_rows, test_rows = data.splits[seed]
    X, y, X_test, y_test = data.X[train_rows], data.y[train_rows], data.X[test_rows], data.y[test_rows]

    def learn(rows: Array, seed: int) -> tuple[Scores, float]:
        model = NPNRegressor(
            hidden=tuple(settings["hidden"]),
            n_estimators=settings["members"],
            max_epochs=settings["epochs"],
            device="cpu",
            random_state=seed,
        )
        model.fit(X[rows], y[rows])
        parts, apart = model.predict_variance(X), model.predict_members(X).mean.var(0)
        by_rule = {"epistemic": parts.epistemic - apart, "entropy": parts.total, "disagreement": apart}
        return Scores(model.predict(X), by_rule), float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))

    return Problem(len(X), learn)


def of_digits(settings: dict[str, Any], seed: int, device: torch.device) -> Problem:
    """Some of MNIST's training images, other ones for each seed; the same test images for all."""
    data = digits(device)
    drawn = torch.randperm(len(data.train.y), generator=torch.Generator().manual_seed(seed))[: settings["pool"]]
    x, y, test = data.train.x[drawn], data.train.y[drawn], data.test.first(settings["test"])
    likelihood = ScaledSoftmax(CLASSES)

    def learn(rows: Array, seed: int) -> tuple[Scores, float]:
        labelled = torch.as_tensor(rows, device=device)
        network = nn.Sequential(
            nn.Dropout(settings["dropout"]),
            *nn.mlp(
                [784, *settings["hidden"], CLASSES],
                replicas=(settings["members"],),
                generator=torch.Generator().manual_seed(seed),
            ),
        ).to(device)
        recipe = Recipe(
            epochs=settings["steps"],
            batch_size=len(rows),
            learning_rate=settings["learning_rate"],
            kl_weight=constant(settings["kl_weight"]),
            seed=seed,
        )
        prior = IsotropicGaussian(settings["prior_precision"])
        train(network, (x[labelled], y[labelled]), likelihood, prior, recipe, device=device)
        network.eval()
        o = outputs(network, x)
        each = likelihood.predict(o).probs
        probs = each.mean(0)
        by_rule = {
            "epistemic": likelihood.variance_parts(o).epistemic.sum(-1).mean(0),
            "entropy": -(probs * probs.clamp_min(1e-30).log()).sum(-1),
            "disagreement": each.var(0).sum(-1),
        }
        answers = likelihood.predict(outputs(network, test.x)).probs.mean(0).argmax(-1)
        error = 100 * float((answers != test.y).double().mean())
        return Scores(probs.cpu().numpy(), {rule: score.cpu().numpy() for rule, score in by_rule.items()}), error

    return Problem(len(x), learn)


def curve(problem: Problem, rule: str, settings: dict[str, Any], seed: int) -> list[float]:
    """The test error after each round, the first before any row is chosen; all rules start with the same rows."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(problem.size)
    labelled = order[: settings["start"]]
    errors = []
    for number in range(settings["rounds"] + 1):
        scores, error = problem.learn(labelled, seed)
        errors.append(rounded(error))
        if number < settings["rounds"]:
            score = rng.random(problem.size) if rule == "random" else scores.by_rule[rule].copy()
            score[labelled] = -np.inf
            labelled = np.concatenate([labelled, np.argsort(-score, kind="stable")[: settings["batch"]]])
    return errors


def cells(options: Options) -> list[Cell]:
    """One for each task and rule."""
    seeds = options.seeds or (1 if options.quick else SEEDS)

    def planned(name: str, rule: str) -> Cell:
        settings = (DIGITS if name == "mnist" else TABLE) | (QUICK if options.quick else {})

        def run(progress: Progress) -> dict[str, Any]:
            found = []
            for seed in range(seeds):
                problem = (
                    of_digits(settings, seed, options.device) if name == "mnist" else of_table(name, settings, seed)
                )
                found.append(curve(problem, rule, settings, seed))
                progress((seed + 1) / seeds)
            return {"error": found}  # (seeds, rounds)

        return Cell(f"{name}/{rule}", {**settings, "rule": rule, "seeds": seeds}, run)

    return [planned(name, rule) for name in TASKS for rule in RULES]


def labels(settings: dict[str, Any]) -> list[int]:
    """How many rows are labelled in each round."""
    return [settings["start"] + k * settings["batch"] for k in range(settings["rounds"] + 1)]


def of_task(record: Record, name: str) -> dict[str, Any]:
    """Cells by rule, of a task that all rules have done; else nothing."""
    found = {rule: record["cells"].get(f"{name}/{rule}") for rule in RULES}
    return {} if None in found.values() else found


def area(cell: dict[str, Any]) -> list[float]:
    """The mean error over all rounds but the first, which all rules share; one number for each seed."""
    return [float(np.mean(errors[1:])) for errors in cell["figures"]["error"]]


def section(record: Record) -> str:
    """Errors along the way, means over rounds, and differences to chance on the same start."""
    parts = [
        "A few rows are labelled, networks learn from them and score the others, and the highest scores are labelled "
        "next. All rules share the model and the first rows; a seed is a published split, or other images. *Mean* is "
        "the error averaged over all rounds but the first; *to chance* the paired difference to labelling at random "
        "(below zero, the rule is better). Nothing was tuned, for any rule."
    ]
    for name, what in TASKS.items():
        if not (found := of_task(record, name)):
            continue
        first = next(iter(found.values()))
        numbers = labels(first["settings"])
        places = [0, len(numbers) // 2, len(numbers) - 1]
        rows = []
        for rule, cell in found.items():
            errors = np.asarray(cell["figures"]["error"])
            pairs = np.subtract(area(cell), area(found["random"])).tolist()
            shown = [str(Summary.of(errors[:, place].tolist())) for place in places]
            gain = "–" if rule == "random" else str(Summary.of(pairs))
            rows.append([RULES[rule], *shown, str(Summary.of(area(cell))), gain])
        head = ["", *(f"{numbers[place]} labels" for place in places), "mean", "to chance"]
        about = f"**{what}**, {len(first['figures']['error'])} seeds, {first['settings']['members']} networks:"
        parts += [about, table(head, rows), _verdict(found)]
    return "\n\n".join(parts)


def _verdict(found: dict[str, Any]) -> str:
    """Which rules beat chance by two standard errors, and the best of them."""
    apart = {
        rule: Summary.of(np.subtract(area(cell), area(found["random"])).tolist())
        for rule, cell in found.items()
        if rule != "random"
    }
    better = [RULES[rule] for rule, gap in apart.items() if gap.mean < -2 * gap.error]
    worse = [RULES[rule] for rule, gap in apart.items() if gap.mean > 2 * gap.error]
    least = min(apart, key=lambda rule: apart[rule].mean)
    return (
        f"By two standard errors, better than chance: {', '.join(better) or 'none'}; "
        f"worse: {', '.join(worse) or 'none'}. The least mean error has {RULES[least]}."
    )


def figure(record: Record) -> Figure:
    """Error against labelled rows, a panel for each task."""
    from npn_studies.experiments.paper_figures import learning_curves

    panels = {}
    for name, what in TASKS.items():
        if found := of_task(record, name):
            numbers = labels(next(iter(found.values()))["settings"])
            panels[what] = numbers, {RULES[r]: np.asarray(c["figures"]["error"]) for r, c in found.items()}
    return learning_curves(panels)


def headline(record: Record) -> list[tuple[str, str, str]]:
    """Mean errors by epistemic variance and by chance."""
    rows = []
    for name, what in TASKS.items():
        if found := of_task(record, name):
            ours, chance = (Summary.of(area(found[rule])).mean for rule in ("epistemic", "random"))
            rows.append(
                (f"Active learning on {what}: by epistemic variance / at random", "–", f"{ours:.3g} / {chance:.3g}")
            )
    return rows


EXPERIMENT = Experiment(
    name="active",
    title="Which rows to label next",
    place="Introduction",
    data=("concrete", "energy", "mnist"),
    minutes=15,
    cells=cells,
    section=section,
    figure=figure,
    headline=headline,
    in_parts=True,
)
