"""Kinds of columns, learnt from a table, and how their cells become the inputs of a network."""

from torchnpn.columns.bins import Bins
from torchnpn.columns.category import MOST_LEVELS, Category
from torchnpn.columns.cells import Cells, Texts, Times, is_missing
from torchnpn.columns.date import Date
from torchnpn.columns.dates import orders
from torchnpn.columns.encoder import Column, Columns, Encoded, column_from_state
from torchnpn.columns.frames import Frame, arrow_cells
from torchnpn.columns.kinds import learn
from torchnpn.columns.number import Number

__all__ = [
    "MOST_LEVELS",
    "Bins",
    "Category",
    "Cells",
    "Column",
    "Columns",
    "Date",
    "Encoded",
    "Frame",
    "Number",
    "Texts",
    "Times",
    "arrow_cells",
    "column_from_state",
    "is_missing",
    "learn",
    "orders",
]
