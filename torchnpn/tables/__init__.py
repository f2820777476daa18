"""From a CSV or Parquet file to arrays, and from predictions back to a file, in bounded memory."""

from torchnpn.tables.columns import Column, Survey, notes, survey
from torchnpn.tables.errors import TableError
from torchnpn.tables.formats import written_format
from torchnpn.tables.holdout import split
from torchnpn.tables.importance import Importance, permutation_importance
from torchnpn.tables.judge import ClassOutcome, NumberOutcome, Outcome, figures, joined, marginal_outcome, outcome
from torchnpn.tables.model import TableModel, uncertainty
from torchnpn.tables.numerals import Notation
from torchnpn.tables.read import Table, cells, open_table
from torchnpn.tables.record import Figure, Record, people_read
from torchnpn.tables.sample import Rows, load, rows_to_keep
from torchnpn.tables.schema import Category, FarOutside, LeftOut, Number, Schema, find_schema
from torchnpn.tables.target import (
    CLASS,
    Kind,
    Target,
    find_column,
    find_kind,
    make_target,
    marginal,
    sentence,
)
from torchnpn.tables.totals import total_in_last_row, with_last
from torchnpn.tables.write import CsvWriter, Writer, csv_cells, rounded, table_writer, whole_file

__all__ = [
    "CLASS",
    "Category",
    "ClassOutcome",
    "Column",
    "CsvWriter",
    "FarOutside",
    "Figure",
    "Importance",
    "Kind",
    "LeftOut",
    "Notation",
    "Number",
    "NumberOutcome",
    "Outcome",
    "Record",
    "Rows",
    "Schema",
    "Survey",
    "Table",
    "TableError",
    "TableModel",
    "Target",
    "Writer",
    "cells",
    "csv_cells",
    "figures",
    "find_column",
    "find_kind",
    "find_schema",
    "joined",
    "load",
    "make_target",
    "marginal",
    "marginal_outcome",
    "notes",
    "open_table",
    "outcome",
    "people_read",
    "permutation_importance",
    "rounded",
    "rows_to_keep",
    "sentence",
    "split",
    "survey",
    "table_writer",
    "total_in_last_row",
    "uncertainty",
    "whole_file",
    "with_last",
    "written_format",
]
