"""A few words about a column, for `npn info` and the report."""

from __future__ import annotations

from torchnpn import tables

_SHOWN = 4


def describe_column(column: tables.Number | tables.Category, seen: tables.Column | None = None) -> str:
    """What a column holds, with its range where its survey is at hand."""
    if isinstance(column, tables.Number):
        return "numbers" if seen is None else f"numbers from {seen.low:.4g} to {seen.high:.4g}"
    values = ", ".join(column.values[:_SHOWN]) + (", …" if len(column.values) > _SHOWN else "")
    return f"one of {len(column.values)}{' or other' if column.has_other else ''}: {values}"
