"""What can be wrong, each in one line: the model file, or the table."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class ModelError(ValueError):
    """A file is no model of torchnpn, or cannot do what is asked of it."""


class TableError(ValueError):
    """A table lacks a column, or a cell of it cannot be read."""


def shown(cell: Any, most: int = 40) -> str:
    """A cell or a name in quotes, shortened."""
    text = str(cell)
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def did_you_mean(wrong: str, names: Iterable[str], most: int = 12) -> str:
    """' Did you mean …?' with close names, or else the first names there are."""
    known = [str(name) for name in names]
    folded = [name for name in known if name.strip().casefold() == wrong.strip().casefold()]
    if found := list(dict.fromkeys([*folded, *difflib.get_close_matches(wrong[:100], known[:2_000], n=3)])):
        return f" Did you mean {' or '.join(map(shown, found))}?"
    return f" There are: {', '.join(known[:most])}{', …' if len(known) > most else ''}."
