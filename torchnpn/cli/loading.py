"""Model files that `npn fit` wrote, for the commands that use them."""

from __future__ import annotations

from pathlib import Path

from torchnpn import io, tables
from torchnpn.cli.errors import fail


def load_model(path: Path) -> tables.TableModel:
    """The model in a file, or one line about what else it holds."""
    model = io.load(path)
    if not isinstance(model, tables.TableModel):
        fail(
            f"{path} holds a {type(model).__name__}, without the columns of a table. Use it in Python: npn.load(path)."
        )
    return model
