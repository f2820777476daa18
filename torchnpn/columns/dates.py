"""Dates that are written as text: 2024-12-31, 31.12.2024, 12/31/2024, with or without a time behind them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

ORDERS = ("ymd", "dmy", "mdy")
_PART = {"y": r"(?P<y>\d{4})", "m": r"(?P<m>\d{1,2})", "d": r"(?P<d>\d{1,2})"}
_TIME = (
    r"(?:(?:T| +)(?P<hour>\d{1,2}):(?P<rest>\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?)"
    r" ?(?P<half>[AaPp][Mm])?(?: ?(?P<zone>Z|UTC|[+-]\d{2}:?\d{2}))?)?"
)
_PATTERNS = {
    order: re.compile(rf"{_PART[order[0]]}(?P<mark>[-/.]){_PART[order[1]]}(?P=mark){_PART[order[2]]}{_TIME}")
    for order in ORDERS
}


def orders(texts: Iterable[str]) -> tuple[str, ...]:
    """In which orders of year, month and day all of these texts are dates: none, one, or two where it stays open.

    Some day above the twelfth decides, and points decide, too: with them, the day comes first.
    """
    possible: tuple[str, ...] = ORDERS
    with_slashes = seen = False
    for text in texts:
        possible = tuple(order for order in possible if parsed(text, order) is not None)
        if not possible:
            return ()
        seen, with_slashes = True, with_slashes or "." not in text[:6]
    if not seen:
        return ()
    return possible if with_slashes or len(possible) == 1 else ("dmy",)


def parsed(text: str, order: str) -> datetime | None:
    """The moment that a text means, with its time zone if it has one; None where it is no date."""
    found = _PATTERNS[order].fullmatch(text)
    if found is None:
        return None
    part = found.groupdict()
    hour, rest, half, zone = (part[name] or "" for name in ("hour", "rest", "half", "zone"))
    if half:
        if not 1 <= int(hour) <= 12:
            return None
        hour = str(int(hour) % 12 + (12 if half in ("PM", "pm", "Pm", "pM") else 0))
    clock = f"{hour:0>2}:{rest.replace(',', '.')}{'Z' if zone == 'UTC' else zone}" if hour else "00:00"
    try:
        return datetime.fromisoformat(f"{part['y']}-{part['m']:0>2}-{part['d']:0>2}T{clock}")
    except ValueError:  # the thirtieth of February
        return None
