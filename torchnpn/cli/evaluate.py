"""`npn evaluate`: how a model does on a table whose target is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from torchnpn.cli.arguments import InputTable, Level, ModelPath
from torchnpn.cli.errors import in_one_line


@in_one_line
def evaluate(
    model: ModelPath,
    data: Annotated[Path, InputTable("Table with the model's columns and its target")],
    level: Level = 0.9,
) -> None:
    """Test a model on rows whose target is known.

    Prints the same figures as `npn fit`. Use rows that the model was not trained on.

    \b
    Examples:
      npn evaluate model.npn test.csv
      npn evaluate model.npn test.parquet --level 0.5
      tail -n +2 more.csv | cat header.csv - | npn evaluate model.npn -
    """
    from torchnpn.cli.predicting import evaluate as run

    run(model, data, level)
