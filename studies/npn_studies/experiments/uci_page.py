"""The tables of `uci`: what was found beside what others have printed, and on how many tables NPN holds its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from npn_studies.experiments.experiment import Record
from npn_studies.experiments.tables import Summary, table

OURS = {  # key of a method's cells, and of its figures within
    "NPN": ("npn", "single"),
    "NPN, mixture of 5": ("npn", "mixture"),
    "MC dropout, tuned": ("dropout", None),
    "deep ensemble, tuned": ("ensemble", None),
    "PBP": ("pbp", None),
}
PUBLISHED = ("VI", "PBP", "MC dropout", "tuned dropout", "deep ensemble", "TAGI", "TAGI-V")
PRINTED = {  # as printed, in the order of PUBLISHED
    "rmse": {
        "boston": "4.32 3.01 2.97 2.90 3.28 3.15 3.12",
        "concrete": "7.19 5.67 5.23 4.83 6.03 5.87 6.05",
        "energy": "2.65 1.80 1.66 0.54 2.09 1.32 1.88",
        "kin8nm": "0.10 0.10 0.10 0.079 0.09 0.095 0.101",
        "naval": "0.01 0.01 0.01 0.0007 0.00 0.007 0.006",
        "power": "4.33 4.12 4.02 4.01 4.11 4.13 4.15",
        "protein": "4.84 4.73 4.36 4.27 4.71 4.62 4.64",
        "wine": "0.65 0.64 0.62 0.62 0.64 0.639 0.639",
        "yacht": "6.89 1.02 1.11 0.67 1.58 1.04 1.80",
    },
    "log_likelihood": {
        "boston": "-2.90 -2.57 -2.46 -2.40 -2.41 -2.58 -2.54",
        "concrete": "-3.39 -3.16 -3.04 -2.94 -3.06 -3.20 -3.21",
        "energy": "-2.39 -2.04 -1.99 -1.21 -1.38 -1.81 -1.85",
        "kin8nm": "0.90 0.90 0.95 1.14 1.20 0.89 0.88",
        "naval": "3.73 3.73 3.80 4.45 5.63 3.54 3.75",
        "power": "-2.89 -2.84 -2.80 -2.81 -2.79 -2.88 -2.84",
        "protein": "-2.99 -2.97 -2.89 -2.87 -2.83 -2.95 -2.92",
        "wine": "-0.98 -0.97 -0.93 -0.93 -0.94 -0.98 -0.97",
        "yacht": "-3.43 -1.63 -1.55 -1.25 -1.18 -1.60 -1.64",
    },
}
PRINTED_ERRORS = {  # what was printed after ±, in the order of the tables; "–" where there was nothing
    "rmse": {
        "VI": "0.29 0.12 0.08 0.00 0.00 0.04 0.03 0.01 0.67",
        "PBP": "0.18 0.09 0.05 0.00 0.00 0.03 0.01 0.01 0.05",
        "MC dropout": "0.85 0.53 0.19 0.00 0.00 0.18 0.04 0.04 0.38",
        "tuned dropout": "0.18 0.16 0.0135 – – 0.04 0.02 0.01 0.05",
        "deep ensemble": "1.00 0.58 0.29 0.00 0.00 0.17 0.06 0.04 0.48",
    },
    "log_likelihood": {
        "VI": "0.07 0.02 0.03 0.01 0.12 0.01 0.01 0.01 0.16",
        "PBP": "0.09 0.02 0.02 0.01 0.01 0.01 0.00 0.01 0.02",
        "MC dropout": "0.25 0.09 0.09 0.03 0.05 0.05 0.01 0.06 0.12",
        "tuned dropout": "0.04 0.02 0.01 0.01 – 0.01 – 0.01 0.01",
        "deep ensemble": "0.25 0.18 0.22 0.02 0.05 0.04 0.02 0.12 0.21",
    },
}
DEVIATIONS = "MC dropout", "deep ensemble"  # whose ± is a standard deviation over splits, though called an error
SPLITS = {"protein": 5}  # 20 of all others
SOURCES = (
    "Published rows: VI, PBP and MC dropout as printed by Gal and Ghahramani (2016), tuned dropout from the search of "
    "a grid that they published with their code, deep ensembles from Lakshminarayanan et al. (2017), TAGI and TAGI-V "
    "from cuTAGI's page of benchmarks, which has splits of its own; the others share the splits used here. A published "
    "± is the standard error as printed. What MC dropout and deep ensembles print after ± is a standard deviation over "
    "splits: it stands here as “std”, and is divided by the root of the number of splits for the comparison. That of "
    "tuned dropout on energy is the standard error of its published results, of which 0.06 is the deviation."
)
METRICS = {"rmse": ("RMSE, less is better", -1), "log_likelihood": ("Log-likelihood, more is better", 1)}


class Entry(NamedTuple):
    """A figure of the table: how it is shown, its value, its standard error where that is known, and its source."""

    text: str
    value: float
    error: float | None
    printed: bool = False

    @property
    def comparable(self) -> bool:
        """Not if it was printed as zero: that says too little."""
        return not self.printed or self.value != 0


def section(record: Record) -> str:
    """Both tables, in how many places NPN is best, and where it is not."""
    sets = list(dict.fromkeys(key.partition("/")[2] for key in record["cells"]))
    parts = [_explained(record)]
    for metric, (title, sign) in METRICS.items():
        rows = {name: entries(record, name, metric) for name in sets}
        parts += [f"### {title}", _table(rows, sign), _counted(rows, sign)]
    return "\n\n".join([*parts, SOURCES])


def entries(record: Record, name: str, metric: str) -> dict[str, Entry]:
    """The figures of one table by column; published ones have their column in parentheses."""
    found = {}
    for label, (method, part) in OURS.items():
        if (cell := record["cells"].get(f"{method}/{name}")) is not None:
            figures = cell["figures"] if part is None else cell["figures"][part]
            summary = Summary.of(figures[metric])
            found[label] = Entry(str(summary), *summary)
    for label, text in zip(PUBLISHED, PRINTED[metric][name].split(), strict=True):
        found[f"({label})"] = _as_printed(text, label, name, metric)
    return found


def _as_printed(text: str, label: str, name: str, metric: str) -> Entry:
    """A published figure; an error that was printed as zero, or not at all, is not known."""
    errors = PRINTED_ERRORS[metric].get(label, "")
    spread = dict(zip(PRINTED[metric], errors.split(), strict=True))[name] if errors else "–"
    if spread == "–":
        return Entry(text, float(text), None, printed=True)
    if label in DEVIATIONS:
        error = float(spread) / math.sqrt(SPLITS.get(name, 20))
        return Entry(f"{text} (std {spread})", float(text), error or None, printed=True)
    return Entry(f"{text} ± {float(spread):.2f}", float(text), float(spread) or None, printed=True)


def leading(row: dict[str, Entry], sign: int, usual: float) -> set[str]:
    """The columns that are best, or within one standard error of the best: the larger one of the two columns'.

    Args:
        row: The figures of one table.
        sign: 1 where more is better, -1 where less is.
        usual: Standard error of published figures whose own is not known.
    """
    known = {column: entry for column, entry in row.items() if entry.comparable}
    errors = {column: usual if entry.error is None else entry.error for column, entry in known.items()}
    best = max(known, key=lambda column: sign * known[column].value)
    return {
        column
        for column, entry in known.items()
        if sign * (known[best].value - entry.value) <= max(errors[best], errors[column])
    }


def held(rows: dict[str, dict[str, Entry]], label: str, sign: int, among: Callable[[str], bool]) -> list[str]:
    """The tables on which a column leads, among itself and the columns that `among` names."""
    return [
        name
        for name, row in rows.items()
        if label in row
        and label
        in leading({c: entry for c, entry in row.items() if c == label or among(c)}, sign, row[label].error or 0.0)
    ]


def _usual(row: dict[str, Entry]) -> float:
    """NPN's standard error, for figures whose own is not known."""
    return (row["NPN"].error if "NPN" in row else None) or 0.0


def _published(column: str) -> bool:
    return column.startswith("(")


def _of_others(column: str) -> bool:
    """Published, or a baseline run here."""
    return not column.startswith("NPN")


def _table(rows: dict[str, dict[str, Entry]], sign: int) -> str:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = []
    for name, row in rows.items():
        best = leading(row, sign, _usual(row))
        texts = [
            (f"**{row[column].text}**" if column in best else row[column].text) if column in row else "–"
            for column in columns
        ]
        lines.append([name, *texts])
    return table(["", *columns], lines)


def _counted(rows: dict[str, dict[str, Entry]], sign: int) -> str:
    lines = []
    for label in ("NPN", "NPN, mixture of 5"):
        present = [name for name, row in rows.items() if label in row]
        published = held(rows, label, sign, _published)
        everyone = held(rows, label, sign, _of_others)
        short = [name for name in present if name not in published]
        missed = f"; not on {', '.join(short)}" if short else ""
        lines.append(
            f"{label}: best, or within one standard error of the best, of the published rows on {len(published)} of "
            f"{len(present)} tables{missed}; of these and the baselines run here on {len(everyone)}."
        )
    return "\n".join(f"- {line}" for line in lines)


def headline(record: Record) -> list[tuple[str, str, str]]:
    """On how many tables NPN leads, among what was printed, and among that and what was run here."""
    sets = list(dict.fromkeys(key.partition("/")[2] for key in record["cells"]))

    def counts(label: str, among: Callable[[str], bool]) -> str:
        every = (
            held({name: entries(record, name, metric) for name in sets}, label, sign, among)
            for metric, (_, sign) in METRICS.items()
        )
        return " / ".join(str(len(names)) for names in every)

    what = "UCI tables with the best RMSE / log-likelihood, or within one standard error"
    return [
        (
            f"{what}: {label}",
            "–",
            f"{counts(label, _published)} of {len(sets)} beside published methods, "
            f"{counts(label, _of_others)} beside those tuned here, too",
        )
        for label in ("NPN", "NPN, mixture of 5")
    ]


def _explained(record: Record) -> str:
    trials: dict[str, int] = {}
    for key, cell in record["cells"].items():
        method = key.partition("/")[0]
        trials[method] = max(trials.get(method, 0), int(cell["figures"]["trials"]))
    labels = {method: label for label, (method, part) in OURS.items() if part != "mixture"}
    settings = "; ".join(f"{labels[method]}: {count}" for method, count in trials.items())
    return (
        "Mean over the published splits ± standard error; one hidden layer of 50 units, of 100 for protein. NPN is "
        "`NPNRegressor()` as it comes, the same for all tables; the figures of one network are means over the five "
        "of a split, each alone. Bold: the best, and what is within one standard error of it (the larger of the "
        "two; published rows without one, or with one printed as 0.00, are taken to have NPN's, and a figure "
        f"printed as 0.00 is not compared). Settings tried for each split: {settings}. NPN's one recipe for all "
        "tables was chosen beforehand, its noise, units and steps on cuts of the training parts of the first five "
        "splits (`uci_search`); that tables of more than 10,000 rows should train longer was tried, on such cuts, "
        "after test figures of a first run were seen. Columns in parentheses are published."
    )
