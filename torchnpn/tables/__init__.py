"""From the columns of a table to a model of one of them: schema, target, rows to learn from, test, record."""

from torchnpn.tables.cells import CellEffects, cell_effects, cells_in_words
from torchnpn.tables.evaluation import (
    ClassOutcome,
    NumberOutcome,
    Outcome,
    figures,
    join_outcomes,
    marginal_outcome,
    outcome,
    tested,
)
from torchnpn.tables.large import Large, fit_large, read_large
from torchnpn.tables.learning import MOST_ROWS, Data, Question, fit_estimator, read_data
from torchnpn.tables.model import TableModel, uncertainty
from torchnpn.tables.record import Figure, Record, is_worse, nll_of, people_read
from torchnpn.tables.rows import Rows, load_rows, rows_to_keep, split_rows
from torchnpn.tables.schema import FarOutside, LeftOut, Schema, find_schema
from torchnpn.tables.target import (
    CLASS,
    Kind,
    Target,
    describe_target,
    find_column,
    find_kind,
    make_target,
    marginal,
    marginal_moments,
)

__all__ = [
    "CLASS",
    "MOST_ROWS",
    "CellEffects",
    "ClassOutcome",
    "Data",
    "FarOutside",
    "Figure",
    "Kind",
    "Large",
    "LeftOut",
    "NumberOutcome",
    "Outcome",
    "Question",
    "Record",
    "Rows",
    "Schema",
    "TableModel",
    "Target",
    "cell_effects",
    "cells_in_words",
    "describe_target",
    "figures",
    "find_column",
    "find_kind",
    "find_schema",
    "fit_estimator",
    "fit_large",
    "is_worse",
    "join_outcomes",
    "load_rows",
    "make_target",
    "marginal",
    "marginal_moments",
    "marginal_outcome",
    "nll_of",
    "outcome",
    "people_read",
    "read_data",
    "read_large",
    "rows_to_keep",
    "split_rows",
    "tested",
    "uncertainty",
]
