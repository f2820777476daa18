"""`npn evaluate`: how a model does on a table whose target is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from torchnpn import tables
from torchnpn.cli.console import bars, say, show_figures
from torchnpn.cli.errors import fail, in_one_line
from torchnpn.cli.models import Level, ModelPath, load_model


@in_one_line
def evaluate(
    model: ModelPath,
    data: Annotated[Path, typer.Argument(help="Table with the model's columns and its target.")],
    level: Level = 0.9,
) -> None:
    """Judge a model by rows whose target is known.

    Prints the same figures as `npn fit`. For an honest judgement, take rows that the model has not seen.

    \b
    Examples:
      npn evaluate model.npn test.csv
      npn evaluate model.npn test.parquet --level 0.5
    """
    fitted, table = load_model(model), tables.open_table(data)
    target = fitted.target
    fitted.schema.check(table.names)
    if target.name not in table.names:
        fail(f"{data} has no column {target.name!r} to judge by.{tables.did_you_mean(target.name, table.names)}")
    outcomes, row = [], 1
    with bars() as bar:
        for batch in table.batches(bar("Predicting")):
            found = tables.cells(batch[target.name])
            if found is None:
                fail(f"column {target.name!r} holds {batch[target.name].type}; expected numbers or text.")
            y = target.encode(found, row)
            there = ~np.isnan(y)
            X = fitted.schema.encode(batch, row)
            if there.any():
                outcomes.append(tables.outcome(fitted.estimator, target, X[there], y[there], level))
            row += batch.num_rows
    if not outcomes:
        fail(f"the target {target.name!r} is missing in all {row - 1:,} rows of {data}.")
    found_all = tables.joined(outcomes)
    say(f"{data.name}: {len(found_all.y):,} rows with a target, of {row - 1:,}.")
    show_figures(tables.figures(found_all, tables.marginal_outcome(target, found_all.y, level), level))
