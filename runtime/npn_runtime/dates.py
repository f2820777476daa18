"""Dates and times as seconds since 1970: text such as 2024-12-31 or 31.12.2024 8:05, and what Python and numpy have.

The same rules as in torchnpn's `columns.dates`; a test compares both.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np

LOCAL, UTC, CLOCK = "local", "utc", "clock"  # times without a zone; with one; times of day
_PART = {"y": r"(?P<y>\d{4})", "m": r"(?P<m>\d{1,2})", "d": r"(?P<d>\d{1,2})"}
_TIME = (
    r"(?:(?:T| +)(?P<hour>\d{1,2}):(?P<rest>\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?)"
    r" ?(?P<half>[AaPp][Mm])?(?: ?(?P<zone>Z|UTC|[+-]\d{2}:?\d{2}))?)?"
)
_PATTERNS = {
    order: re.compile(rf"{_PART[order[0]]}(?P<mark>[-/.]){_PART[order[1]]}(?P=mark){_PART[order[2]]}{_TIME}")
    for order in ("ymd", "dmy", "mdy")
}
_SECOND = datetime.timedelta(seconds=1)
_START = datetime.datetime(1970, 1, 1)


def parsed(text: str, order: str) -> datetime.datetime | None:
    """The moment that a text means, with its time zone if it has one; None where it is no date."""
    found = _PATTERNS[order].fullmatch(text)
    if found is None:
        return None
    part = found.groupdict()
    hour, rest, half, zone = (part[name] or "" for name in ("hour", "rest", "half", "zone"))
    if half:
        if not 1 <= int(hour) <= 12:
            return None
        hour = str(int(hour) % 12 + (12 if half.upper() == "PM" else 0))
    clock = f"{hour:0>2}:{rest.replace(',', '.')}{'Z' if zone == 'UTC' else zone}" if hour else "00:00"
    try:
        return datetime.datetime.fromisoformat(f"{part['y']}-{part['m']:0>2}-{part['d']:0>2}T{clock}")
    except ValueError:  # the thirtieth of February
        return None


def seconds(value: Any, order: str) -> tuple[float, str] | None:
    """Seconds since 1970 or since midnight, to the microsecond, and of what clock; None where it is no date."""
    if isinstance(value, str):
        value = parsed(value, order)
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime.time):
        moment = datetime.datetime.combine(_START.date(), value.replace(tzinfo=None))
        return (moment - _START) / _SECOND, CLOCK
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    if not isinstance(value, datetime.datetime):
        return None
    if value.tzinfo is None:
        return (value - _START) / _SECOND, LOCAL
    return (value.astimezone(datetime.UTC).replace(tzinfo=None) - _START) / _SECOND, UTC
