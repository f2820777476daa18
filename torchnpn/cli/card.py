"""A model card: what a model is, learnt from what, how good on which rows, and where not to trust it; in Markdown."""

from __future__ import annotations

import re
from shlex import quote
from typing import Any

from torchnpn import tables
from torchnpn._text import counted
from torchnpn.cli.models import describe_column, describe_network
from torchnpn.columns import Number
from torchnpn.report import printable

_LONGEST = 300  # characters of one text
_LIMITS = (
    "It knows rows like those it learnt from. Far outside of them intervals widen, but not enough to hold the truth at "
    "any distance; between two groups of rows they stay too narrow.",
    "It says what goes with what, not what causes what: changing a column in the world may not change the target.",
    "The figures are about rows drawn at random from the same file. Rows of a later time, another place or another "
    "instrument may be predicted worse; test on such rows with `npn evaluate`.",
)


def card(name: str, model: tables.TableModel, about: dict[str, Any]) -> str:
    """The card of what `npn fit` wrote.

    Args:
        name: Of the file, without its folder.
        model: What it holds.
        about: What `io.describe` says of it.
    """
    target, record, file = model.target, model.record, quote(printable(name))
    learnt = f"{counted(record.rows)} of {_plain(record.file)}, with these columns:"
    parts = {
        "What it is": _what(model, about),
        "What it learnt from": f"{learnt}\n\n{_columns(model)}",
        f"How well it does on {counted(record.held_out)} that it did not learn from": _figures(model),
        "Are its uncertainties right?": _calibration(model),
        "Limits": "\n".join(f"- {limit}" for limit in (*map(_plain, record.notes), *_gaps(model), *_LIMITS)),
        "How to use it": f"```sh\nnpn predict {file} new.csv -o predicted.csv\nnpn evaluate {file} test.csv\n```",
        "Versions": f"Saved {about['saved']} by {_versions(about)}.",
    }
    title = f"# {_plain(target.name)}: a model by torchnpn"
    return "\n\n".join([title, *(f"## {heading}\n\n{text}" for heading, text in parts.items())]) + "\n"


def _what(model: tables.TableModel, about: dict[str, Any]) -> str:
    target = model.target
    if target.is_class:
        pairs = zip(target.classes, target.marginal, strict=True)
        shares = [f"{_plain(label)} ({share:.1%} of the rows)" for label, share in pairs]
        listed = ", ".join(shares[:20]) + (", …" if len(shares) > 20 else "")
        what = f"the probability of each of {len(shares)} classes: {listed}"
    else:
        what = f"the distribution of {target.likelihood.words} ({target.family}): mean, standard deviation, intervals"
    exposed = f", in proportion to {_plain(target.exposure)}" if target.exposure else ""
    return (
        f"It predicts {_plain(target.name)}{exposed}: {what}. A natural-parameter network: its weights are "
        f"distributions, and one pass gives a distribution. {describe_network(model)} It holds "
        f"{about['parameters']:,} numbers."
    )


def _columns(model: tables.TableModel) -> str:
    rows = [
        f"| {_plain(column.name)} | {_plain(describe_column(column, model.schema.notation(column.name)))} |"
        for column in model.schema.columns
    ]
    return "\n".join(["| column | holds |", "|---|---|", *rows])


def _figures(model: tables.TableModel) -> str:
    rows = [f"| {' | '.join(figure.shown())} |" for figure in model.record.figures]
    lower = ", ".join(figure.name for figure in model.record.figures if figure.less_is_better)
    worse = "\n\n**It gives the true values a lower likelihood than the baseline: do not use it.**"
    return "\n".join(
        [
            "| | model | baseline |",
            "|---|---|---|",
            *rows,
            "",
            "The baseline uses no column: it predicts the distribution of the training targets for every row. "
            f"Lower is better: {lower}.{worse if model.record.is_worse else ''}",
        ]
    )


def _calibration(model: tables.TableModel) -> str:
    """What the held-out rows say, and how much so few rows can say."""
    record = model.record
    by_name = {figure.name: figure.model for figure in record.figures}
    corrected = model.estimator.calibrate
    how = (
        f"Corrected by rows that its networks had not seen (`calibrate={corrected!r}`)."
        if corrected
        else ("Not corrected by held-out rows (`calibrate=None`): the network's own distributions.")
    )
    if model.target.is_class:
        return f"{how} On the rows above the calibration error is {by_name['calibration error']:.1%}."
    name, share = next((name, value) for name, value in by_name.items() if name.startswith("in the "))
    level = float(name.removeprefix("in the ").partition("%")[0]) / 100
    chance = 1.96 * (level * (1 - level) / max(record.held_out, 1)) ** 0.5
    return (
        f"{how} Of the rows above {share:.1%} lie in their {level:.0%} interval; for {counted(record.held_out)} and "
        f"right intervals, {max(level - chance, 0):.0%} to {min(level + chance, 1):.0%} would be usual."
    )


def _gaps(model: tables.TableModel) -> list[str]:
    ranged = [column.name for column in model.schema.columns if isinstance(column, Number) and column.range is not None]
    listed = ", ".join(map(_plain, ranged))
    return [f"Beyond the ranges in the table above it has seen nothing: {listed}."] if ranged else []


def _versions(about: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in about["versions"].items())


def _plain(text: str) -> str:
    """Text from a file as text, not as markup of its own, nor as orders to a terminal."""
    words = printable(" ".join(text.split()))[:_LONGEST]
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", words)
