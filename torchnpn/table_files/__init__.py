"""Files of tables as people write them (CSV, Excel, Parquet): opened, surveyed, read and written in bounded memory.

It knows cells, numbers and columns, and no model.
"""

from torchnpn.table_files.columns import Column, Reading, Survey, notes, survey
from torchnpn.table_files.errors import TableError
from torchnpn.table_files.formats import written_format
from torchnpn.table_files.numerals import Notation
from torchnpn.table_files.read import Progress, Table, cells, no_progress, open_table
from torchnpn.table_files.totals import total_in_last_row, with_last
from torchnpn.table_files.write import CsvWriter, Writer, csv_cells, rounded, table_writer

__all__ = [
    "Column",
    "CsvWriter",
    "Notation",
    "Progress",
    "Reading",
    "Survey",
    "Table",
    "TableError",
    "Writer",
    "cells",
    "csv_cells",
    "no_progress",
    "notes",
    "open_table",
    "rounded",
    "survey",
    "table_writer",
    "total_in_last_row",
    "with_last",
    "written_format",
]

# For other packages of torchnpn:
from torchnpn.table_files.columns import column_numbers as column_numbers
from torchnpn.table_files.numerals import COMMA as COMMA
from torchnpn.table_files.numerals import POINT as POINT
from torchnpn.table_files.numerals import USUAL_NOTATION as USUAL_NOTATION
from torchnpn.table_files.numerals import other_mark as other_mark
