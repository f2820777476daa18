"""From the columns of a table to a model of one of them: schema, target, rows to learn from, test, record."""

from torchnpn.tables.evaluation import ClassOutcome, NumberOutcome, Outcome, figures, joined, marginal_outcome, outcome
from torchnpn.tables.holdout import split
from torchnpn.tables.importance import Importance, permutation_importance
from torchnpn.tables.model import TableModel, uncertainty
from torchnpn.tables.record import Figure, Record, people_read
from torchnpn.tables.sample import Rows, load, rows_to_keep
from torchnpn.tables.schema import Category, FarOutside, LeftOut, Number, Schema, find_schema
from torchnpn.tables.target import (
    CLASS,
    Kind,
    Target,
    description,
    find_column,
    find_kind,
    make_target,
    marginal,
)

__all__ = [
    "CLASS",
    "Category",
    "ClassOutcome",
    "FarOutside",
    "Figure",
    "Importance",
    "Kind",
    "LeftOut",
    "Number",
    "NumberOutcome",
    "Outcome",
    "Record",
    "Rows",
    "Schema",
    "TableModel",
    "Target",
    "description",
    "figures",
    "find_column",
    "find_kind",
    "find_schema",
    "joined",
    "load",
    "make_target",
    "marginal",
    "marginal_outcome",
    "outcome",
    "people_read",
    "permutation_importance",
    "rows_to_keep",
    "split",
    "uncertainty",
]

# For other packages of torchnpn:
from torchnpn.tables.record import NLL as NLL
