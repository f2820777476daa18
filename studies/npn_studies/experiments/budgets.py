"""What each figure had for its search, read from the records of the searches: settings tried, epochs, and the rank.

Comparisons are fair as far as these are equal. Where they are not, the page says so beside the figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from npn_studies.experiments import links_search, mnist, mnist_search, mnist_size_search
from npn_studies.experiments.digit_methods import METHODS, Setting
from npn_studies.experiments.digit_settings import CHOSEN, STEPS
from npn_studies.experiments.experiment import Record
from npn_studies.experiments.links_page import LABELS
from npn_studies.experiments.tables import table

_ASKED = "masks", "samples", "epochs"  # that settings may differ in and be the same network


class Budget(NamedTuple):
    """Of one row of a comparison.

    Attributes:
        label: Of the row.
        trials: Different networks that were tried.
        epochs: Of all of them together; None where the search counts steps that are the same for all.
        rank: Place of the reported settings among those tried, by the best score each reached; None if not tried.
        lengths: Epochs for which the reported settings were tried.
        run: Epochs of the reported network.
    """

    label: str
    trials: int
    epochs: int | None = None
    rank: int | None = None
    lengths: tuple[int, ...] = ()
    run: int | None = None


def digits(search: Record) -> dict[str, Budget]:
    """Of the rows of `mnist`."""
    return {name: _digit_row(search, row, CHOSEN[row.chosen] | row.changes) for name, row in mnist.ROWS.items()}


def _digit_row(search: Record, row: mnist.Row, setting: Setting) -> Budget:
    method = "dropout" if row.chosen == "dropout_alone" else row.method
    trials = mnist_search.trials_of(search, method)
    if row.chosen == "dropout_alone":
        trials = [one for one in trials if one["settings"]["prior_precision"] == 0]
    elif "adversarial" not in setting:
        trials = [one for one in trials if "adversarial" not in one["settings"]]
    if row.changes:
        trials = [one for one in trials if all(one["settings"][key] == value for key, value in row.changes.items())]
    scores: dict[str, float] = {}
    for one in trials:
        key = _key(one["settings"])
        scores[key] = min(scores.get(key, float("inf")), mnist_search.score(one["error"], one["nll"]))
    own = _key(setting)
    lengths = [one["settings"]["epochs"] for one in trials if _key(one["settings"]) == own]
    rank = 1 + sum(score < scores[own] for score in scores.values()) if own in scores else None
    epochs = sum({_key(one["settings"], "epochs"): one["settings"]["epochs"] for one in trials}.values())
    return Budget(row.label, mnist_search.trained(trials), epochs, rank, tuple(sorted(set(lengths))), setting["epochs"])


def _key(setting: Mapping[str, Any], *kept: str) -> str:
    return str(sorted((k, str(v)) for k, v in setting.items() if k not in _ASKED or k in kept))


def sizes(search: Record) -> dict[int, dict[str, int]]:
    """Trials by the number of images and method; steps are the same for all."""
    methods = list(dict.fromkeys(key.split("/")[0] for key in search["cells"]))
    return {
        size: {name: mnist_search.trained(mnist_size_search.trials_of(search, name, size)) for name in methods}
        for size in STEPS
    }


def documents(search: Record) -> dict[str, dict[str, int]]:
    """Settings in the record by data set and method; more of the Gaussian were tried by hand (`link_grids`)."""
    found: dict[str, dict[str, int]] = {}
    for key in search["cells"]:
        name, method, number = key.split("/")[:3]
        if number != links_search.FINAL:
            found.setdefault(name, {}).setdefault(method, 0)
            found[name][method] += 1
    return found


def section(found: Mapping[str, Record]) -> str:
    """Tables of all searches whose records are there; nothing where there are none."""
    tables = [shown(found[name]) for name, shown in _SECTIONS.items() if name in found]
    return "\n\n".join([_EXPLAINED, *tables]) if tables else ""


_EXPLAINED = """## Budgets

How much search stands behind the figures, counted in the records of the searches. *Rank* is the place of the reported
settings among those that their own search tried, by the best that each reached."""


def _of_digits(search: Record) -> str:
    rows = digits(search)
    lines = [
        [
            one.label,
            str(one.trials),
            f"{one.epochs:,}",
            "not tried" if one.rank is None else str(one.rank),
            ", ".join(map(str, one.lengths)) or "–",
            str(one.run),
        ]
        for one in rows.values()
    ]
    head = ["`mnist`", "settings tried", "epochs in all", "rank", "tried for epochs", "run for epochs"]
    return "\n\n".join([table(head, lines), inequalities(rows)])


def inequalities(rows: Mapping[str, Budget]) -> str:
    """In words: which trials and epochs differ, and which rows have other than the best settings of their search."""
    trials, epochs = ({getattr(one, key) for one in rows.values()} for key in ("trials", "epochs"))
    unequal = [word for word, values in (("settings", trials), ("epochs", epochs)) if len(values) > 1]
    second = [f"{one.label} ({_ordinal(one.rank)})" for one in rows.values() if one.rank not in (1, None)]
    unknown = [one.label for one in rows.values() if one.rank is None]
    longer = [one.label for one in rows.values() if one.lengths and one.run not in one.lengths]
    parts = [
        f"Rows differ in {' and '.join(unequal)} of their searches." if unequal else "All rows had equal searches.",
        f"Not the first of their search: {', '.join(second)}; for rows with finals, several seeds decided."
        if second
        else "",
        f"Not searched at all: {', '.join(unknown)}." if unknown else "",
        f"Run for another number of epochs than tried: {', '.join(longer)}." if longer else "",
    ]
    return " ".join(filter(None, parts))


def _ordinal(number: int | None) -> str:
    assert number is not None
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number if number < 20 else number % 10, 'th') }"


def _of_sizes(search: Record) -> str:
    found = sizes(search)
    methods = list(next(iter(found.values())))
    lines = [[METHODS[name].label, *(str(found[size][name]) for size in found)] for name in methods]
    head = ["`mnist_size`: settings tried", *(f"{size:,} images" for size in found)]
    return "\n\n".join(
        [
            table(head, lines),
            "Steps are the same for all. Dropout alone was searched without an adversary, the NPN with one for 18 "
            "of its settings; the NPN without one has the best of the others.",
        ]
    )


def unopposed(search: Record, name: str, size: int) -> dict[str, Any]:
    """The best trial of a method without an adversary."""
    trials = mnist_size_search.trials_of(search, name, size)
    free = [one for one in trials if "adversarial" not in one["settings"]]
    return min(free, key=lambda one: sum(map(mnist_search.score, one["error"], one["nll"])))


def _of_documents(search: Record) -> str:
    found = documents(search)
    methods = list(next(iter(found.values())))
    lines = [[LABELS[name], *(str(by_method[method]) for method in methods)] for name, by_method in found.items()]
    return "\n\n".join(
        [
            table(["`links`: settings tried", *methods], lines),
            "Beyond the record, some sixty more networks, most of them Gaussian, were looked at on the same validation "
            "documents to see where to search (`link_grids`): the Gaussian NPN had more search than any baseline.",
        ]
    )


_SECTIONS: dict[str, Callable[[Record], str]] = {
    "mnist_search": _of_digits,
    "mnist_size_search": _of_sizes,
    "links_search": _of_documents,
}
