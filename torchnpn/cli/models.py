"""Model files that `npn fit` wrote: how commands load one, and a few words about its columns and its network."""

from __future__ import annotations

from pathlib import Path

from torchnpn import io, table_files, tables
from torchnpn._text import counted
from torchnpn.cli.errors import fail
from torchnpn.columns import Column, Date, Number

_SHOWN = 4
_PERIODS = {"year": "season", "week": "day of the week", "day": "time of day"}


def load_model(path: Path) -> tables.TableModel:
    """The model in a file, or one line about what else it holds."""
    model = io.load(path)
    if not isinstance(model, tables.TableModel):
        fail(
            f"{path} holds a {type(model).__name__}, without the columns of a table. Use it in Python: npn.load(path)."
        )
    return model


def describe_column(column: Column, notation: table_files.Notation) -> str:
    """What a column holds."""
    if isinstance(column, Date):
        periods = [_PERIODS[period] for period in column.periods]
        return f"dates{': ' if periods else ''}{', '.join(periods)}"
    if isinstance(column, Number):
        words = " with a decimal comma" if notation.decimal == "," else ""
        if column.range is None:
            return f"numbers{words}"
        low, high = map(tables.people_read, column.range)
        return f"numbers{words} from {low} to {high}"
    values = ", ".join(column.values[:_SHOWN]) + (", …" if len(column.values) > _SHOWN else "")
    return f"one of {len(column.values)}{' or other' if column.has_other else ''}: {values}"


def describe_network(model: tables.TableModel) -> str:
    """Hidden layers and settings that matter."""
    estimator = model.estimator
    hidden = tuple(getattr(estimator, "hidden_", None) or estimator.hidden or ())
    some = "no hidden layer" if not hidden else "a hidden layer" if len(hidden) == 1 else "hidden layers"
    layers = f"{some} of {', '.join(f'{size:,}' for size in hidden)} units" if hidden else some
    inputs = counted(model.schema.width, "input")
    several = f"{estimator.n_estimators} networks, each with " if (estimator.n_estimators or 1) > 1 else "Network with "
    return f"{several}{inputs} and {layers}; activation {estimator.activation}, kl_weight {estimator.kl_weight:g}."
