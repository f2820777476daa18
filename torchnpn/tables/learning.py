"""From a table to an estimator: what the table holds, the rows to learn from, and the fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from torchnpn.columns import Encoded
from torchnpn.estimators import NPNClassifier, NPNRegressor
from torchnpn.likelihoods import BY_NAME
from torchnpn.progress import Callback
from torchnpn.table_files import Progress, Survey, Table, no_progress, survey
from torchnpn.tables.rows import Rows, load_rows, rows_to_keep
from torchnpn.tables.schema import LeftOut, Schema, find_schema
from torchnpn.tables.target import Kind, Target, find_column, make_target, marginal

MOST_ROWS = 1_000_000  # to learn from


class Question(NamedTuple):
    """Which column of a table is to be predicted, and how its file is to be read."""

    target: str  # name of the column
    family: str = "auto"  # "auto", "class" or the name of a likelihood
    drop: Collection[str] = ()  # columns not to use
    use: Collection[str] = ()  # columns to use though they look like identifiers or codes
    decimal: str | None = None  # the decimal mark; None finds out for each column
    missing: Sequence[str] = ()  # words for missing cells, beside the usual ones
    exposure: str = ""  # column to which the target is in proportion, if there is one
    seed: int = 0  # decides which rows are used

    def survey(self, table: Table, progress: Progress = no_progress) -> Survey:
        """What a table holds; one reading."""
        numbers = [*self.use, *([self.exposure] if self.exposure else [])]
        numbers += [self.target] if self.family in BY_NAME else []
        return survey(table, self.drop, progress, decimal=self.decimal, missing=self.missing, numbers=numbers)


class Data(NamedTuple):
    """A table, read and understood."""

    table: Table
    found: Survey
    schema: Schema
    left_out: list[LeftOut]
    target: Target
    kind: Kind


def read_data(
    table: Table, question: Question, max_rows: int = MOST_ROWS, progress: Progress = no_progress
) -> tuple[Data, Rows]:
    """What a table holds, and the rows to use, with classes as codes.

    Args:
        table: Read twice.
        question: What is to be learnt from it.
        max_rows: How many rows to keep at most.
        progress: Called with the share of the reading that is done.

    Raises:
        TableError: Nothing can be learnt from it.
    """
    name, family, exposure = question.target, question.family, question.exposure
    found = question.survey(table, lambda share: progress(share / 2))
    if found.total is not None:
        table = table.head(found.rows)
    column = find_column(found, name, family)
    schema, left_out = find_schema(found, name, question.use, exposure)
    keep = rows_to_keep(column.filled, schema.width, max_rows)
    rows = load_rows(table, schema, column, keep, question.seed, lambda share: progress((1 + share) / 2))
    target, y, kind = make_target(column, rows.y, family, exposure)
    return Data(table, found, schema, left_out, target, kind), Rows(rows.X, y)


def new_estimator(target: Target, rows: Rows, settings: dict[str, Any]) -> tuple[NPNRegressor | NPNClassifier, Target]:
    """An estimator for a target, not fitted yet, and the target with its own distribution in these rows."""
    about = dataclasses.replace(target, marginal=marginal(target, rows.y, target.exposures(rows.X)))
    return NPNClassifier(**settings) if about.is_class else NPNRegressor(about.family, **settings), about


def fit_estimator(
    schema: Schema,
    target: Target,
    rows: Rows,
    settings: dict[str, Any],
    callbacks: Sequence[Callback] = (),
) -> tuple[NPNRegressor | NPNClassifier, Target]:
    """An estimator for a target, fitted, and the target with its own distribution in these rows."""
    estimator, about = new_estimator(target, rows, settings)
    known = {"exposure": schema.width - 1} if about.exposure else {}
    return estimator.fit(Encoded(rows.X, schema.least_scale), rows.y, callbacks=callbacks, **known), about
