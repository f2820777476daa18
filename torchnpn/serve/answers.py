"""Predictions as the answer to a request: JSON objects, or a CSV table beside its input."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from torchnpn._text import shown
from torchnpn.serve.limits import Refused
from torchnpn.table_files import CsvWriter, csv_cells, rounded

Columns = dict[str, NDArray[Any]]  # each (rows,)


def as_json(content: Any) -> bytes:
    """JSON as browsers take it: what is infinite or unknown is null."""
    try:
        text = json.dumps(content, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(content), allow_nan=False)
    return text.encode()


def objects(columns: Columns) -> list[dict[str, Any]]:
    """A row of predictions for each row."""
    values = [column.tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def as_csv(parts: Iterable[tuple[pa.RecordBatch, Columns]]) -> bytes:
    """The input with predictions, as `npn predict` writes it."""
    file, writer = io.BytesIO(), None
    for batch, predicted in parts:
        if taken := predicted.keys() & set(batch.schema.names):
            raise Refused(422, f"The table already has a column {shown(min(taken))}: leave it out.")
        whole = {name: csv_cells(batch[name], name) for name in batch.schema.names}
        new = {name: csv_cells(pa.array(rounded(column)), name) for name, column in predicted.items()}
        rows = pa.RecordBatch.from_pydict({**whole, **new})
        writer = writer or CsvWriter(file, rows.schema)
        writer.write(rows)
    return file.getvalue()


def _finite(content: Any) -> Any:
    match content:
        case float():
            return content if math.isfinite(content) else None
        case dict():
            return {name: _finite(value) for name, value in content.items()}
        case list() | tuple():
            return [_finite(value) for value in content]
        case np.generic():
            return _finite(content.item())
    return content
