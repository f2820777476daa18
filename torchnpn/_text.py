"""Words for messages: close names, cells in quotes, and how many there are of a thing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

_MOST_COMPARED = 2_000  # names; a comparison with each takes a while
_LONGEST = 40  # characters of a cell


def did_you_mean(wrong: str, names: Iterable[str], most: int = 12) -> str:
    """' Did you mean …?' with close names, or else the first `most` names there are.

    >>> did_you_mean("gama", ["gamma", "beta"])
    " Did you mean 'gamma'?"
    >>> did_you_mean("iris", ["gamma", "beta"])
    ' There are: gamma, beta.'
    """
    known = [str(name) for name in names]
    close = difflib.get_close_matches(wrong[:100], [name[:100] for name in known[:_MOST_COMPARED]], n=3, cutoff=0.6)
    folded = [name for name in known if name.strip().casefold() == wrong.strip().casefold()]
    if found := list(dict.fromkeys([*folded, *close])):
        return f" Did you mean {' or '.join(map(shown, found))}?"
    listed = ", ".join(shown(name)[1:-1] for name in known[:most]) + (", …" if len(known) > most else "")
    return f" There are: {listed}."


def shown(cell: Any) -> str:
    """A cell or a name in quotes, shortened."""
    text = str(cell)
    return repr(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def counted(count: int, thing: str = "row") -> str:
    """So many of a thing.

    >>> counted(1), counted(1234, "cell")
    ('1 row', '1,234 cells')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
