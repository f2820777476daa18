"""The page of `links`: tables beside the paper's, differences in pairs, goals, and what the variance is good for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from npn_studies.experiments.experiment import Record
from npn_studies.experiments.link_methods import (
    DIRECTIONS,
    DISTANCES,
    MEAN,
    METHODS,
    OURS,
    PAPER,
    PAPER_MEAN,
    View,
    controls,
)
from npn_studies.experiments.tables import Summary, table

LABELS = {"citeulike-t": "Citeulike-t", "arxiv": "arXiv", "cora": "Cora"}
SPLITS = {"nodes": "split by documents", "links": "split by links"}
PAPER_FIGURES = {  # link rank, then without variance, and AUC, as printed
    "citeulike-t": {
        "SAE": "2109.8, .891",
        "SDAE": "1356.8, .920",
        "VAE": "1599.6, .922",
        "gamma": "1342.3 (1400.7), .936",
        "Gaussian": "1280.4 (1330.7), .940",
        "Poisson": "1354.1 (9117.2), .934",
    },
    "arxiv": {
        "SAE": "4232.7, .811",
        "SDAE": "2916.1, .840",
        "VAE": "3367.2, .834",
        "gamma": "2796.4 (3038.8), .861",
        "Gaussian": "2687.9 (2923.8), .878",
        "Poisson": "2684.1 (10791.3), .879",
    },
}


class Goal(NamedTuple):
    """Set before the runs, for the split by documents with variances."""

    rank: float
    auc: float | None = None


GOALS = {
    "citeulike-t": {"gaussian": Goal(780, 0.963), "gamma": Goal(1050), "poisson": Goal(1050)},
    "arxiv": {"gaussian": Goal(1400, 0.937), "gamma": Goal(1700), "poisson": Goal(1700)},
}
ENOUGH = 2.0  # standard errors by which to be ahead


class Scores(NamedTuple):
    """Of one view on one split, by seed."""

    view: View
    rank: list[float]
    auc: list[float]

    @property
    def mean_rank(self) -> float:
        """Over seeds."""
        return Summary.of(self.rank).mean


class Result(NamedTuple):
    """One method on one data set and split."""

    method: str
    mean: Scores  # the view of means that the search chose
    used: Scores | None  # with variances, as the search chose
    control: Scores | None  # the best of its controls
    seconds: float | None  # for an epoch

    @property
    def label(self) -> str:
        """Of the method."""
        return METHODS[self.method].label

    @property
    def shown(self) -> Scores:
        """With variances where there are some."""
        return self.used or self.mean


class Difference(NamedTuple):
    """Of two figures in pairs: the same seed is the same split."""

    rank: Summary
    auc: Summary

    @classmethod
    def between(cls, one: Scores, other: Scores) -> Difference:
        """`one` minus `other`."""
        return cls(
            *(
                Summary.of([a - b for a, b in zip(first, second, strict=True)])
                for first, second in ((one.rank, other.rank), (one.auc, other.auc))
            )
        )

    @property
    def errors(self) -> float | None:
        """The difference of ranks in standard errors; None where one seed tells nothing."""
        return self.rank.mean / self.rank.error if self.rank.error else None


def of_set(record: Record, name: str) -> dict[str, Any]:
    """Cells by method of one data set."""
    return {m: record["cells"][f"{name}/{m}"] for m in METHODS if f"{name}/{m}" in record["cells"]}


def results(record: Record, name: str, split: str) -> dict[str, Result]:
    """By method."""
    return {method: _result(method, cell, split) for method, cell in of_set(record, name).items()}


def _result(method: str, cell: dict[str, Any], split: str) -> Result:
    kept, chosen = cell["figures"][split], cell["settings"]["use"]
    use = None if chosen is None else View(*chosen)

    def least(among: Sequence[View]) -> Scores | None:
        there = [Scores(view, **kept[view.label]) for view in among if view.label in kept]
        return min(there, key=lambda scores: scores.mean_rank, default=None)

    mean = least([View(*cell["settings"]["mean"])])
    assert mean is not None
    seconds = Summary.of(cell["figures"]["seconds_per_epoch"]).mean if METHODS[method].searched else None
    return Result(method, mean, least([use] if use else []), least(controls(use) if use else ()), seconds)


def rival(found: dict[str, Result]) -> Result | None:
    """The baseline with the least rank in this very table, as a baseline's friend would choose it."""
    others = [one for method, one in found.items() if method not in OURS]
    return min(others, key=lambda one: one.shown.mean_rank, default=None)


def section(record: Record) -> str:
    """For each data set and split a table and the differences; the goals; every view of codes with variances."""
    sets = [name for name in LABELS if of_set(record, name)]
    parts = [_EXPLAINED, *(text for name in sets if name in GOALS for text in _goals(record, name))]
    for name in sets:
        for split, words in SPLITS.items():
            found = results(record, name, split)
            parts += [f"### {LABELS[name]}, {words}", _table(found, name, split), *_differences(found)]
    for name in sets:
        if any(METHODS[method].second_order for method in of_set(record, name)):
            parts += [f"### Views of the codes, {LABELS[name]}, {SPLITS['nodes']}", _views(record, name)]
    return "\n\n".join(parts)


_EXPLAINED = (
    "Codes of 50 dimensions, learnt from the words of all documents; then a Bayesian logistic regression on "
    "products of two codes (`LinkPredictor`). The rank of a document's true neighbours among all candidates, "
    "averaged over its neighbours and then over documents; less is better. *Mean*: means of the codes alone, "
    "centred and of one length, their products and, beyond the paper, sums of the two codes and of their squares, "
    "the same of the documents' log lengths, and either squared distances of the codes or sums of those of one "
    "length, whichever `links_search` found better; of gamma and Poisson codes the square roots are taken first. "
    "All methods have them but tf-idf, which is a cosine, and SVD, which has distances. *With variance*: the use of "
    "the variance that `links_search` chose, as it chose the settings; “joint” takes into account that the units of "
    "a Gaussian NPN's code are correlated (`DocumentAutoencoder.transform_joint`). *Control*: the same use with "
    "something else in place of the variance: its average, a function of the mean, or a function of the document's "
    "length, with mean correlations; the best of them by the test figures. What it gains is no gain of the "
    "variance. Means over seeds with standard errors; each seed has its own split and its own network. Differences "
    "are taken in pairs, for the same seed is the same split. The paper's figures are for a split by documents that "
    "it does not publish; in parentheses without variance. They are no like-for-like comparison: on arXiv our texts "
    "are titles and abstracts, with fewer words than the paper's; its link rank is, by its words, a mean over "
    "links, where ours is one over documents ([both](paper.md)); and our features of a pair are more than its "
    "products. The Gaussian NPN had more search than the twenty settings of each method: [Budgets](#budgets)."
)


def _table(found: dict[str, Result], name: str, split: str) -> str:
    rows = []
    for method, one in found.items():
        shown = [one.mean, one.used, one.control] if split == "nodes" else [one.mean, one.used]
        texts = ["–" if scores is None else whole(Summary.of(scores.rank)) for scores in shown]
        auc = Summary.of(one.shown.auc)
        row = [one.label, *texts, f"{auc.mean:.4f} ± {auc.error:.4f}"]
        if split == "nodes":
            row.append(PAPER_FIGURES.get(name, {}).get(METHODS[method].paper, "–"))
            row.append("–" if one.seconds is None else f"{one.seconds:.2f}")
        rows.append(row)
    head = ["", "rank, mean", "with variance"]
    if split == "nodes":
        return table([*head, "control", "AUC", "paper: rank, AUC", "s per epoch"], rows)
    return table([*head, "AUC"], rows)


def whole(summary: Summary) -> str:
    """Ranks without decimals, but for small ones."""
    digits = 0 if summary.mean >= 100 else 1
    return f"{summary.mean:.{digits}f} ± {summary.error:.{digits}f}"


def _differences(found: dict[str, Result]) -> list[str]:
    """A table, if there is something to compare."""
    rows = [
        [what, str(difference.rank), in_errors(difference), str(difference.auc)]
        for what, difference in differences(found)
    ]
    return [table(["difference in pairs", "rank", "in standard errors", "AUC"], rows)] if rows else []


def in_errors(difference: Difference) -> str:
    """The difference of ranks as a multiple of its standard error."""
    return "–" if difference.errors is None else f"{difference.errors:+.1f}"


def differences(found: dict[str, Result]) -> Iterator[tuple[str, Difference]]:
    """Ours and the best baseline; with variance and without; variance and control."""
    best = rival(found)
    for method in OURS if best else ():
        if method in found:
            assert best is not None
            what = f"{found[method].label}, with variance − {best.label}, the best baseline"
            yield what, Difference.between(found[method].shown, best.shown)
    for one in found.values():
        if one.used is not None:
            yield f"{one.label}, with variance − mean", Difference.between(one.used, one.mean)
    for one in found.values():
        if one.used is not None and one.control is not None:
            what = f"{one.label}, variance − control “{one.control.view.control}”"
            yield what, Difference.between(one.used, one.control)


def _goals(record: Record, name: str) -> list[str]:
    """What was aimed at, and whether it was reached."""
    found, texts = results(record, name, "nodes"), []
    for method, goal in GOALS[name].items():
        if method in found:
            scores = found[method].shown
            texts.append(f"{found[method].label}: rank ≤ {goal.rank:g}, {_reached(scores.mean_rank, goal.rank, 1)}")
            if goal.auc is not None:
                auc = Summary.of(scores.auc).mean
                texts[-1] += f", AUC ≥ {goal.auc}, {_reached(-auc, -goal.auc, 4)}"
    best = rival(found)
    if best is not None and "gaussian" in found:
        apart = Difference.between(found["gaussian"].shown, best.shown)
        ahead = apart.errors is not None and apart.errors < -ENOUGH
        texts.append(
            f"Gaussian NPN ahead of the best baseline ({best.label}) by more than two standard errors: "
            f"{'reached' if ahead else 'missed'} ({apart.rank.mean:+.1f} ± {apart.rank.error:.1f} ranks)"
        )
    return [f"Goals on {LABELS[name]}, {SPLITS['nodes']}. {'; '.join(texts)}."] if texts else []


def _reached(value: float, most: float, digits: int) -> str:
    return f"{'reached' if value <= most else 'missed'} ({abs(value):.{digits}f})"


def _views(record: Record, name: str) -> str:
    """Test ranks of every view of the codes with variances; the chosen use differs from method to method."""
    methods = {m: cell for m, cell in of_set(record, name).items() if METHODS[m].second_order}
    uses = {m: View(*cell["settings"]["use"]) for m, cell in methods.items()}
    kinds = list(dict.fromkeys(view.control for use in uses.values() for view in controls(use)))
    lines = {
        "means as they are": dict.fromkeys(methods, PAPER_MEAN),
        "the paper's: products of log variances beside": dict.fromkeys(methods, PAPER),
        "means, centred, of one length; sums; the documents' lengths": dict.fromkeys(methods, MEAN),
        "and squared distances of means": dict.fromkeys(methods, DISTANCES),
        "or sums of means of one length, and of their squares": dict.fromkeys(methods, DIRECTIONS),
        "with the chosen use of the variance": uses,
        **{f"control: {kind}": {m: use._replace(control=kind) for m, use in uses.items()} for kind in kinds},
    }
    rows = [["the chosen use", *(use.label for use in uses.values())]]
    for what, views in lines.items():
        kept = [methods[m]["figures"]["nodes"].get(view.label) for m, view in views.items()]
        rows.append([what, *("–" if one is None else whole(Summary.of(one["rank"])) for one in kept)])
    return table(["", *(METHODS[method].label for method in methods)], rows)


def plotted(record: Record) -> dict[str, dict[str, tuple[Summary, Summary | None]]]:
    """For the figure: by data set and method the ranks of means alone and with variance, the split by documents."""
    return {
        LABELS[name]: {
            one.label: (Summary.of(one.mean.rank), None if one.used is None else Summary.of(one.used.rank))
            for one in results(record, name, "nodes").values()
        }
        for name in LABELS
        if of_set(record, name)
    }


def headline(record: Record) -> list[tuple[str, str, str]]:
    """Rank and AUC of the Gaussian network on the paper's two sets."""
    rows = []
    for name, published in PAPER_FIGURES.items():
        if (ours := results(record, name, "nodes").get("gaussian")) is not None:
            paper = published["Gaussian"].partition(" ")[0] + ", " + published["Gaussian"].rpartition(" ")[2]
            told = f"{whole(Summary.of(ours.shown.rank))}, {Summary.of(ours.shown.auc).mean:.3f}"
            rows.append((f"{LABELS[name]}: link rank and AUC of Gaussian NPN", paper, told))
    return rows
