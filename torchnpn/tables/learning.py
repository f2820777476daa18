"""From a table to an estimator: what the table holds, the rows to learn from, and the fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from torchnpn.columns import Encoded
from torchnpn.estimators import NPNClassifier, NPNRegressor
from torchnpn.likelihoods import BY_NAME
from torchnpn.table_files import Progress, Survey, Table, no_progress, survey
from torchnpn.tables.rows import Rows, load_rows, rows_to_keep
from torchnpn.tables.schema import LeftOut, Schema, find_schema
from torchnpn.tables.target import Kind, Target, find_column, make_target, marginal

MOST_ROWS = 1_000_000  # to learn from


class Data(NamedTuple):
    """A table, read and understood."""

    table: Table
    found: Survey
    schema: Schema
    left_out: list[LeftOut]
    target: Target
    kind: Kind


def read_data(
    table: Table,
    name: str,
    family: str = "auto",
    *,
    drop: Collection[str] = (),
    use: Collection[str] = (),
    decimal: str | None = None,
    missing: Sequence[str] = (),
    exposure: str = "",
    max_rows: int = MOST_ROWS,
    seed: int = 0,
    progress: Progress = no_progress,
) -> tuple[Data, Rows]:
    """What a table holds, and the rows to use, with classes as codes.

    Args:
        table: Read twice.
        name: Of the column to predict.
        family: "auto", "class" or the name of a likelihood.
        drop: Columns not to use.
        use: Columns to use though they look like identifiers or codes.
        decimal: The decimal mark; None finds out for each column.
        missing: Words for missing cells, beside the usual ones.
        exposure: Column to which the target is in proportion, if there is one.
        max_rows: How many rows to keep at most.
        seed: Decides which.
        progress: Called with the share of the reading that is done.

    Raises:
        TableError: Nothing can be learnt from it.
    """
    found = survey(
        table,
        drop,
        lambda share: progress(share / 2),
        decimal=decimal,
        missing=missing,
        numbers=[*use, *([exposure] if exposure else []), *([name] if family in BY_NAME else [])],
    )
    if found.total is not None:
        table = table.head(found.rows)
    column = find_column(found, name, family)
    schema, left_out = find_schema(found, name, use, exposure)
    keep = rows_to_keep(column.filled, schema.width, max_rows)
    rows = load_rows(table, schema, column, keep, seed, lambda share: progress((1 + share) / 2))
    target, y, kind = make_target(column, rows.y, family, exposure)
    return Data(table, found, schema, left_out, target, kind), Rows(rows.X, y)


def fit_estimator(
    schema: Schema,
    target: Target,
    rows: Rows,
    settings: dict[str, Any],
    progress: Callable[[float], None] | None = None,
) -> tuple[NPNRegressor | NPNClassifier, Target]:
    """An estimator for a target, fitted, and the target with its own distribution in these rows."""
    about = dataclasses.replace(target, marginal=marginal(target, rows.y, target.exposures(rows.X)))
    estimator = NPNClassifier(**settings) if about.is_class else NPNRegressor(about.family, **settings)
    known = {"exposure": schema.width - 1} if about.exposure else {}
    return estimator.fit(Encoded(rows.X, schema.least_scale), rows.y, progress=progress, **known), about
