"""The tables of `links`: rank and AUC beside the paper's, and what the variance adds."""

from __future__ import annotations

from typing import Any, NamedTuple

from torchnpn.experiments.experiment import Record
from torchnpn.experiments.link_methods import CONTROL, MEAN, METHODS, PAPER_MEAN, VARIANCE, View
from torchnpn.experiments.tables import Summary, table

DATA = {"citeulike-t": "Citeulike-t", "arxiv": "arXiv", "cora": "Cora", "citeseer": "Citeseer"}
SPLITS = {"nodes": "split by documents", "links": "split by links"}
PAPER = {  # link rank, then without variance, and AUC, as printed
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


class Entry(NamedTuple):
    """A view of one method's codes, with its figures."""

    view: View
    rank: Summary
    auc: Summary


def entry(figures: dict[str, Any], split: str, among: tuple[View, ...]) -> Entry | None:
    """The view whose mean validation rank is the least, of those that are there."""
    there = [view for view in among if view.label in figures["validation"]]
    if not there:
        return None
    best = min(there, key=lambda view: Summary.of(figures["validation"][view.label]["rank"]).mean)
    kept = figures[split][best.label]
    return Entry(best, Summary.of(kept["rank"]), Summary.of(kept["auc"]))


def of_set(record: Record, name: str) -> dict[str, dict[str, Any]]:
    """Figures by method of one data set."""
    return {
        method: record["cells"][f"{name}/{method}"]["figures"]
        for method in METHODS
        if f"{name}/{method}" in record["cells"]
    }


def section(record: Record) -> str:
    """For each data set and split a table; whether our Gaussian network is ahead; what the variance is good for."""
    sets = [name for name in DATA if of_set(record, name)]
    parts = [_EXPLAINED]
    for name in sets:
        for split, words in SPLITS.items():
            parts += [f"### {DATA[name]}, {words}", _table(record, name, split), *_verdict(record, name, split)]
    for name in sets:
        parts += [f"### Uses of the variance, {DATA[name]}, {SPLITS['nodes']}", _uses(record, name)]
    return "\n\n".join(parts)


_EXPLAINED = (
    "Codes of 50 dimensions, learnt from the words of all documents; then a Bayesian logistic regression on products "
    "of two codes (`LinkPredictor`). The rank of a document's true neighbours among all candidates, averaged over its "
    "neighbours and then over documents; less is better. *Mean*: means of the codes alone, centred and of one length. "
    "*With variance*: the use of the variance that is best on validation documents. *Control*: the same uses with a "
    "function of the mean in place of the variance, also the best on validation: what it gains is no gain of the "
    "variance. Means over seeds with standard errors; each seed has its own split and its own network. The paper's "
    "figures are for a split by documents that it does not publish; in parentheses without variance."
)


def _table(record: Record, name: str, split: str) -> str:
    rows = []
    for method, figures in of_set(record, name).items():
        found = [entry(figures, split, among) for among in ((MEAN,), VARIANCE, CONTROL)]
        texts = ["–" if one is None else f"{one.rank.mean:.0f} ± {one.rank.error:.0f}" for one in found]
        best = found[1] or found[0]
        assert best is not None
        paper = PAPER.get(name, {}).get(METHODS[method].paper, "–") if split == "nodes" else "–"
        rows.append([METHODS[method].label, *texts, f"{best.auc.mean:.3f} ± {best.auc.error:.3f}", paper])
    return table(["", "rank, mean", "with variance", "control", "AUC", "paper: rank, AUC"], rows)


def _verdict(record: Record, name: str, split: str) -> list[str]:
    """How far our Gaussian network is ahead of the best other code, in standard errors of the difference."""
    found = {
        method: entry(figures, split, VARIANCE) or entry(figures, split, (MEAN,))
        for method, figures in of_set(record, name).items()
    }
    ours, others = (
        found.get("gaussian"),
        {m: e for m, e in found.items() if e and m not in ("gaussian", "gamma", "poisson")},
    )
    if ours is None or not others:
        return []
    rival = min(others, key=lambda method: others[method].rank.mean)
    error = (ours.rank.error**2 + others[rival].rank.error ** 2) ** 0.5
    ahead = others[rival].rank.mean - ours.rank.mean
    told = f", {abs(ahead) / error:.1f} standard errors" if error else ""
    where = "ahead of" if ahead > 0 else "behind"
    return [
        f"The Gaussian NPN is {where} the best baseline ({METHODS[rival].label}) by {abs(ahead):.0f} ranks{told}; its "
        f"variance is used as “{ours.view.variance}”."
    ]


def _uses(record: Record, name: str) -> str:
    """Test ranks of every view of the codes with variances."""
    methods = {m: figures["nodes"] for m, figures in of_set(record, name).items() if METHODS[m].second_order}
    rows = []
    for view in (PAPER_MEAN, MEAN, *VARIANCE, *CONTROL):
        if all(view.label in figures for figures in methods.values()):
            values = [Summary.of(figures[view.label]["rank"]) for figures in methods.values()]
            rows.append([view.label, *(f"{value.mean:.0f} ± {value.error:.0f}" for value in values)])
    return table(["", *(METHODS[method].label for method in methods)], rows)


def headline(record: Record) -> list[tuple[str, str, str]]:
    """Rank and AUC of the Gaussian network on the paper's two sets."""
    rows = []
    for name in PAPER:
        if (figures := of_set(record, name).get("gaussian")) is not None:
            found = entry(figures, "nodes", VARIANCE)
            assert found is not None
            paper = PAPER[name]["Gaussian"].partition(" ")[0] + ", " + PAPER[name]["Gaussian"].rpartition(" ")[2]
            ours = f"{found.rank.mean:.0f} ± {found.rank.error:.0f}, {found.auc.mean:.3f}"
            rows.append((f"{DATA[name]}: link rank and AUC of Gaussian NPN", paper, ours))
    return rows
