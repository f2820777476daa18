"""Files of tables as people write them (CSV, Excel, Parquet): opened, surveyed, read and written in bounded memory.

It knows cells, numbers and columns, and no model.
"""

from torchnpn.table_files.column_survey import Reading, Survey, SurveyedColumn, column_numbers, notes, survey
from torchnpn.table_files.folder import BadShard, FolderTable, Piece, open_folder, pieces, read_piece, shard_paths
from torchnpn.table_files.formats import TableError, written_format
from torchnpn.table_files.memory import arrow_table, frame_beside, memory_table
from torchnpn.table_files.numerals import COMMA, POINT, USUAL_NOTATION, Notation, other_mark
from torchnpn.table_files.places import place
from torchnpn.table_files.read import Progress, Table, cells, no_progress, open_bytes, open_table
from torchnpn.table_files.totals import batches_without_total
from torchnpn.table_files.write import CsvWriter, Writer, csv_cells, rounded, table_writer

__all__ = [
    "COMMA",
    "POINT",
    "USUAL_NOTATION",
    "BadShard",
    "CsvWriter",
    "FolderTable",
    "Notation",
    "Piece",
    "Progress",
    "Reading",
    "Survey",
    "SurveyedColumn",
    "Table",
    "TableError",
    "Writer",
    "arrow_table",
    "batches_without_total",
    "cells",
    "column_numbers",
    "csv_cells",
    "frame_beside",
    "memory_table",
    "no_progress",
    "notes",
    "open_bytes",
    "open_folder",
    "open_table",
    "other_mark",
    "pieces",
    "place",
    "read_piece",
    "rounded",
    "shard_paths",
    "survey",
    "table_writer",
    "written_format",
]
