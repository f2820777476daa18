"""What is wrong with a table, in words for whoever made it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TableError(ValueError):
    """A file that cannot be used as it is; the text is one line that says where, and what to do."""


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """' Did you mean …?' with close names, or the names there are."""
    known = list(names)
    close = difflib.get_close_matches(wrong, known, n=3, cutoff=0.6)
    folded = [name for name in known if name.strip().casefold() == wrong.strip().casefold()]
    if found := list(dict.fromkeys([*folded, *close])):
        return f" Did you mean {' or '.join(map(repr, found))}?"
    shown = ", ".join(known[:12]) + (", …" if len(known) > 12 else "")
    return f" There are: {shown}."
