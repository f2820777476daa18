"""A few words about a column and a network, for `npn info` and the report."""

from __future__ import annotations

from torchnpn import tables

_SHOWN = 4


def describe_column(column: tables.Number | tables.Category) -> str:
    """What a column holds."""
    if isinstance(column, tables.Number):
        words = " with a decimal comma" if column.notation.decimal == "," else ""
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
    layers = f"hidden layers of {', '.join(f'{size:,}' for size in hidden)} units" if hidden else "no hidden layer"
    several = f"{estimator.n_estimators} networks, each with " if estimator.n_estimators > 1 else "Network with "
    return (
        f"{several}{model.schema.width:,} inputs and {layers}; activation {estimator.activation}, "
        f"kl_weight {estimator.kl_weight:g}."
    )
