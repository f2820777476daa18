"""The work of `npn fit`: read, train, test, and try again with more caution where the model is worse than none."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from torchnpn import inspection, io, table_files, tables
from torchnpn._files import whole_file
from torchnpn._text import counted, did_you_mean, shown
from torchnpn.cli import fit_report
from torchnpn.cli.arguments import FitOptions
from torchnpn.cli.console import NOTE, bars, is_first, say, show_record
from torchnpn.cli.errors import fail, writing
from torchnpn.cli.predicting import open_data
from torchnpn.estimators import NPNClassifier, NPNRegressor
from torchnpn.likelihoods import BY_NAME
from torchnpn.progress import Callback
from torchnpn.report import printable
from torchnpn.training import resolve_device

_MOST_WEIGHTS = 20_000_000  # of all networks: a gigabyte with gradients and the optimizer's averages
_STRONG_PRIOR = {"class": 3.0}  # kl_weight where the usual one overfits; 10 for numbers
_MOST_NAMED = 5  # columns that are left out for the same reason, each in a line of its own


class Candidate(NamedTuple):
    """A fitted model, and how it does on the held-out rows."""

    estimator: NPNRegressor | NPNClassifier
    target: tables.Target
    outcome: tables.Outcome
    figures: tuple[tables.Figure, ...]

    @property
    def nll(self) -> float:
        return tables.nll_of(self.figures).model


class Understood(NamedTuple):
    """A table, and its rows."""

    read: tables.Data
    learn: tables.Rows
    held_out: tables.Rows
    large: tables.Large | None = None  # where `learn` has some of the rows only, and the others are in their files


def fit(options: FitOptions) -> None:
    """Fit, and write the model and the report."""
    _check_device(options.settings["device"])
    with bars() as bar:
        understood = _understood(options, bar("Reading"))
    read, learn, held_out, large = understood
    if not len(held_out.y) or learn.y.min() == learn.y.max():
        fail(f"the target {read.target.name!r} differs in too few rows to learn from some and test on others.")
    rows = len(learn.y) if large is None else large.stream.count
    say(f"Learning from {counted(rows)}; {len(held_out.y):,} are held out for testing.")
    checkpoint = options.out.with_name(f"{options.out.name}.checkpoint")
    with bars() as bar, _warnings_as_notes():
        if large is None:
            best, notes = _best(options.settings, read, learn, held_out, bar)
        else:
            fitted_large = tables.fit_large(large, options.settings, _moving(bar("Training")), checkpoint)
            best, notes = _tested(*fitted_large, held_out), []
        record = tables.Record(printable(read.table.name), rows, len(held_out.y), best.figures, tuple(notes))
        fitted = tables.TableModel(read.schema, best.target, best.estimator, record)
        if not is_first():
            return
        if options.report:
            progress, seed = bar("Importance of columns"), options.seed
            importance = inspection.permutation_importance(
                best.estimator, *held_out, groups=read.schema.groups, seed=seed, progress=progress
            )
    with writing(options.out):
        io.save(fitted, options.out)
    if large is not None:
        checkpoint.unlink(missing_ok=True)
    show_record(record)
    say(f"Model:  {options.out}")
    if options.report:
        with _warnings_as_notes():
            text = fit_report.html(fitted, read.kind, held_out.X, best.outcome, importance, read.found, read.left_out)
        with writing(beside := options.out.with_suffix(".html")), whole_file(beside) as file:
            file.write(text.encode())
        say(f"Report: {beside}")


def _best(
    settings: dict[str, Any],
    read: tables.Data,
    learn: tables.Rows,
    held_out: tables.Rows,
    bar: Callable[[str], Any],
) -> tuple[Candidate, list[str]]:
    """The model with the usual settings; others beside it where it is worse than the baseline."""
    schema, target = read.schema, read.target
    best = first = _fitted(schema, target, settings, learn, held_out, bar("Training"))
    tried = []
    for words, family, changed in _attempts(target):
        if not tables.is_worse(best.figures):
            break
        tried.append(words)
        simpler = dataclasses.replace(target, family=family)
        other = _fitted(schema, simpler, {**settings, **changed}, learn, held_out, bar("Training again"))
        if other.nll < best.nll:
            best, kept = other, words
    if not tried:
        return best, []
    usual = f"The usual settings did worse on the held-out rows than the baseline (NLL {_nll(first)})"
    chosen = "the usual settings were kept" if best is first else f"{kept} did best (NLL {_nll(best)}) and was kept"
    notes = [
        f"{usual}. Also tried: {'; '.join(tried)}. Of these {chosen}. "
        "The held-out rows were used to choose, so the figures are a little too good."
    ]
    if tables.is_worse(best.figures):
        notes.append(
            "Worse than predicting the same distribution for every row: do not rely on this model. "
            "More rows, other columns (--drop) or another --family may help."
        )
    return best, notes


def _attempts(target: tables.Target) -> list[tuple[str, str, dict[str, Any]]]:
    """What a person would try next, in words, with family and settings: a stronger prior, then also a simpler model."""
    strong = {"kl_weight": _STRONG_PRIOR.get(target.family, 10.0)}
    family = target.family if target.is_class else target.likelihood.simpler or target.family
    if target.exposure and not BY_NAME[family].log_link:
        family = target.family
    noise = {"noise": "constant"} if family == "gaussian" else {}
    simple = f"a linear model{'' if family == target.family else f' of family {family}'}"
    return [
        ("a stronger prior", target.family, strong),
        (f"{simple} with a stronger prior", family, {**strong, **noise, "hidden": ()}),
    ]


def _fitted(
    schema: tables.Schema,
    target: tables.Target,
    settings: dict[str, Any],
    learn: tables.Rows,
    held_out: tables.Rows,
    progress: Callable[[float], None],
) -> Candidate:
    return _tested(*tables.fit_estimator(schema, target, learn, settings, _moving(progress)), held_out)


def _moving(progress: Callable[[float], None]) -> list[Callback]:
    """Callbacks of a fit that move a bar."""
    return [lambda record: progress(record.share)]


def _tested(estimator: NPNRegressor | NPNClassifier, about: tables.Target, held_out: tables.Rows) -> Candidate:
    return Candidate(estimator, about, *tables.tested(estimator, about, held_out))


def _nll(candidate: Candidate) -> str:
    return tables.people_read(candidate.nll)


def _understood(options: FitOptions, progress: Callable[[float], None]) -> Understood:
    """What a table holds, with its rows, or where they do not fit into memory, some of them."""
    table = open_data(options.data, skip_bad=options.skip_bad)
    question = _question(options, table)
    if isinstance(table, table_files.FolderTable) and options.max_rows is None and table.about_rows > tables.MOST_ROWS:
        large = tables.read_large(table, question, options.validation, progress)
        _check_size(options, large.data)
        _say_what_was_read(large.data, None)
        return Understood(large.data, large.some, large.held_out, large)
    most = options.max_rows or tables.MOST_ROWS
    read, rows = tables.read_data(table, question, most, progress)
    _check_size(options, read)
    _say_what_was_read(read, len(rows.y), most)
    parts = tables.split_rows(rows.y, options.validation, options.seed, by_class=read.target.is_class)
    learn, held_out = (tables.Rows(rows.X[part], rows.y[part]) for part in parts)
    return Understood(read, learn, held_out)


def _question(options: FitOptions, table: table_files.Table) -> tables.Question:
    """What is to be learnt, with the columns by their names."""
    name = table.column(options.target)
    drop, use = (list(map(table.column, some)) for some in (options.drop, options.use))
    exposure = table.column(options.exposure) if options.exposure else ""
    for wanted in (name, *drop, *use, *([exposure] if exposure else [])):
        if wanted not in table.names:
            only = " Cells should be separated by commas, semicolons, tabs or |." if len(table.names) == 1 else ""
            close = did_you_mean(wanted, table.names)
            fail(f"{table.label} has no column {shown(wanted)}.{close}{only}")
    if name in drop:
        fail(f"the target {name!r} cannot be dropped.")
    if exposure and exposure in (name, *drop):
        fail(f"the exposure {exposure!r} can be neither the target nor dropped.")
    if both := set(drop) & set(use):
        fail(f"--drop and --use both name {min(both)!r}. Choose one of the two.")
    decimal, missing = options.decimal, options.missing
    return tables.Question(name, options.family, drop, use, decimal, missing, exposure, options.seed)


def _say_what_was_read(read: tables.Data, kept: int | None, max_rows: int = 0) -> None:
    """A few lines; `kept` is the number of rows that are used, where not all are."""
    filled = read.found.columns[read.target.name].filled
    say(f"{read.table.name}: {counted(read.found.rows)}, columns to learn from: {len(read.schema.columns)}.")
    if read.table.note:
        say(f"  {read.table.note}.", style=NOTE)
    for note in table_files.notes(read.found):
        say(f"  {note}", style=NOTE)
    for reason, names in _by_reason(read.left_out).items():
        for name in names if len(names) <= _MOST_NAMED else ():
            say(f"  left out: {shown(name)} {reason}.", style=NOTE)
        if len(names) > _MOST_NAMED:
            say(f"  left out: {shown(names[0])} and {len(names) - 1:,} more columns: each {reason}.", style=NOTE)
    if filled < read.found.rows:
        say(f"  not used: {counted(read.found.rows - filled)} without a target.", style=NOTE)
    if kept is not None and kept < filled:
        why = "--max-rows" if kept == max_rows else "with so many columns, more rows do not fit into memory"
        say(f"  a random sample of {kept:,} of the {filled:,} rows is used ({why}).", style=NOTE)
    say(tables.describe_target(read.target, read.kind))


def _by_reason(left_out: list[tables.LeftOut]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, reason in left_out:
        grouped.setdefault(reason, []).append(name)
    return grouped


def _check_device(device: str) -> None:
    try:
        torch.empty(0, device=resolve_device(device))
    except (ValueError, RuntimeError, AssertionError) as error:  # torch has names of many devices it cannot use
        fail(f"--device {device} cannot be used here: {str(error).splitlines()[0]}")


def _check_size(options: FitOptions, read: tables.Data) -> None:
    members, hidden = options.settings["n_estimators"], options.settings.get("hidden", ())
    sizes = [read.schema.width, *hidden, max(len(read.target.classes), 1)]
    weights = members * sum(math.prod(pair) for pair in pairwise(sizes))
    if weights > _MOST_WEIGHTS:
        networks = "one network" if members == 1 else f"{members} networks"
        fail(
            f"{networks} of {' - '.join(map(str, sizes))} units would have {weights:,} weights; expected at most "
            f"{_MOST_WEIGHTS:,}. Choose a smaller --hidden or fewer --members."
        )


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """What the library warns about is a line of its own; what numpy or a font warns about is nothing to a user."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(one.message) for one in caught if _is_ours(one)):
        say(f"  note: {text}", style=NOTE)


def _is_ours(one: warnings.WarningMessage) -> bool:
    return issubclass(one.category, UserWarning) and "Glyph" not in str(one.message)
