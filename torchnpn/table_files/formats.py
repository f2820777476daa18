"""What a file holds, by the ending of its name, or by its first bytes where it has none."""

from __future__ import annotations

from pathlib import Path

WRITTEN = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")  # endings of files that can be written
_TEXT = (*WRITTEN[:4], ".txt", ".txt.gz", ".tab", ".dat", ".data")
_EXCEL = (".xlsx", ".xlsm")
_MAGIC = {b"PAR1": ".parquet", b"\x1f\x8b": ".csv.gz", b"PK\x03\x04": ".xlsx"}


class TableError(ValueError):
    """A file that cannot be used as it is; the text is one line for whoever made it: where, and what to do."""


def table_format(path: Path) -> str:
    """'csv', 'parquet' or 'excel'; `is_gzip` says whether it is compressed."""
    name = path.name.lower()
    if name.endswith(WRITTEN[4:]):
        return "parquet"
    if name.endswith(_EXCEL):
        return "excel"
    if name.endswith(_TEXT):
        return "csv"
    if name.endswith((".xls", ".ods", ".numbers")):
        raise TableError(f"{path}: this kind of spreadsheet cannot be read. Save it as .xlsx or .csv.")
    raise TableError(
        f"{path}: the name should end in one of {', '.join(WRITTEN)} or .xlsx, to say what the file holds."
    )


def written_format(path: Path) -> str:
    """The same for a file to write: 'csv' or 'parquet'."""
    if not path.name.lower().endswith(WRITTEN):
        raise TableError(f"{path}: the name of the output should end in one of {', '.join(WRITTEN)}.")
    return table_format(path)


def ending_of(start: bytes) -> str:
    """The ending that a file with these first bytes should have."""
    return next((ending for magic, ending in _MAGIC.items() if start.startswith(magic)), ".csv")


def is_gzip(path: Path) -> bool:
    return path.name.lower().endswith(".gz")
