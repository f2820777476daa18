"""Numbers as people write them, one cell at a time: 1234.56, 1.234,56 €, $1,234.56, 1 234,56, 15.3%, (1,200), 1.2e3.

The same rules as in torchnpn's `table_files.numerals`, which has them for Arrow; a test compares both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from itertools import filterfalse
from typing import NamedTuple

POINT, COMMA = MARKS = (".", ",")
MISSING = frozenset(  # in any case of letters; a cell like this is missing in every column
    (
        *("", "na", "n/a", "n.a.", "n.a", "n. a.", "nan", "-nan", "nat", "<na>", "null", "(null)", "\\n", "none", "?"),
        *(".", "#n/a", "#na", "#nv", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!", "#wert!", "k.a."),
        "k. a.",
    )
)
_TOTALS = (
    *("total", "totals", "grand total", "sum", "summe", "gesamt", "gesamtsumme", "insgesamt", "somme", "totale"),
    *("suma", "average", "mean", "durchschnitt", "mittelwert", "moyenne"),
)
MISSING_AMONG_NUMBERS = frozenset(
    (
        *("-", "--", "---", "–", "—", "−", "..", "...", "…", "*", "**", "unknown", "unk", "missing", "not available"),
        *("not applicable", "no data", "no value", "n/d", "n.d.", "nd", "nil", "void", "empty", "blank", "error"),
        *("tbd", "keine angabe", "unbekannt", "inconnu"),
        *(f"{word}{end}" for word in _TOTALS for end in ("", ":", " :")),
    )
)
_SPACE = "[ \t\u00a0\u202f\u2009]"
_MINUS = "\\-\u2212\u2013"
_CURRENCY = (
    r"(?:(?:US|R|C|A|NZ|HK|S)?\$|[€£¥₹₽₩₺₫₴₦฿₪]|(?i:USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|"
    r"RUB|BRL|ZAR|MXN|KRW|SGD|HKD|TRY|ISK|ILS|THB|SFr|Fr|kr|zł|Kč|Rs)\.?)"
)
_PLAIN = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE)


def _pattern(decimal: str) -> re.Pattern[str]:
    """A cell under a decimal mark, in parts."""
    mark, group = ("\\" + char for char in (decimal, _other(decimal)))
    d = "[0-9]"
    indian = rf"[1-9]{d}?(?:{group}{d}{{2}})+{group}{d}{{3}}(?:{mark}{d}*)?|" if decimal == POINT else ""
    number = (
        rf"[1-9]{d}{{0,2}}(?:{group}{d}{{3}})+(?:{mark}{d}*)?|{indian}"
        rf"[1-9]{d}{{0,2}}(?:(?:{_SPACE}|['’]){d}{{3}})+(?:{mark}{d}*)?|{d}+{mark}?{d}*|{mark}{d}+|(?i:inf|infinity)"
    )
    return re.compile(
        rf"(?:{_CURRENCY}{_SPACE}*)?(?P<open>\(?){_SPACE}*(?P<sign>[+{_MINUS}]?){_SPACE}*(?:{_CURRENCY}{_SPACE}*)?"
        rf"(?P<second>[+{_MINUS}]?)(?P<digits>{number})(?P<exponent>(?:[eE][+{_MINUS}]?{d}+)?){_SPACE}*(?P<percent>%?)"
        rf"{_SPACE}*(?:{_CURRENCY}{_SPACE}*)?(?P<last>[{_MINUS}]?)(?P<close>\)?)"
    )


def _other(decimal: str) -> str:
    return COMMA if decimal == POINT else POINT


_PATTERNS = {decimal: _pattern(decimal) for decimal in MARKS}
_NO_CENTS = {  # 20.- in Switzerland, 20,-- in Germany, 20/- in India
    decimal: re.compile(rf"([0-9])(?:\{decimal}[{_MINUS}\u2014]{{1,2}}|/-)([^0-9]|$)") for decimal in MARKS
}
_SEPARATORS = re.compile(rf"{_SPACE}|['’,]")


def parse(text: str, decimal: str) -> float | None:
    """The number in a cell under a decimal mark, or None."""
    found = _PATTERNS[decimal].fullmatch(_NO_CENTS[decimal].sub(r"\1\2", text))
    if found is None or bool(found["open"]) != bool(found["close"]):
        return None
    digits = found["digits"]
    if decimal == COMMA:
        digits = digits.replace(POINT, "").replace(COMMA, POINT)
    number = float(_SEPARATORS.sub("", digits) + re.sub("[−–]", "-", found["exponent"]))
    number = number / 100 if found["percent"] else number
    is_negative = bool(found["open"]) or any(found[sign] in ("-", "−", "–") for sign in ("sign", "second", "last"))
    return -number if is_negative else number


class Notation(NamedTuple):
    """How the numbers of a column are written."""

    decimal: str = POINT
    missing: frozenset[str] = frozenset()  # words for a missing cell, beside the usual ones
    unit: str = ""  # word behind the numbers, such as kg

    def fitting(self, texts: Iterable[str]) -> Notation:
        """The same, but with the other decimal mark where some texts of a column need that, and none needs this."""
        ours = theirs = False
        for text in map(self._bare, filterfalse(self._is_plain, texts)):
            own, other = parse(text, self.decimal) is not None, parse(text, _other(self.decimal)) is not None
            ours, theirs = ours or (own and not other), theirs or (other and not own)
        return self._replace(decimal=_other(self.decimal)) if theirs and not ours else self

    def read(self, text: str) -> float | None:
        """The number in a cell without spaces around it: NaN where it is missing, None where it is something else.

        A cell that cannot be read with the column's decimal mark is read with the other one.
        """
        if self._is_plain(text):
            return float(text)
        if is_missing(text, MISSING, MISSING_AMONG_NUMBERS, self.missing):
            return math.nan
        text = self._bare(text)
        own = parse(text, self.decimal)
        return parse(text, _other(self.decimal)) if own is None else own

    def _is_plain(self, text: str) -> bool:
        return self.decimal == POINT and bool(_PLAIN.fullmatch(text))

    def _bare(self, text: str) -> str:
        return re.sub(rf"([0-9]){_SPACE}*{re.escape(self.unit)}$", r"\1", text) if self.unit else text


def is_missing(text: str, *words: Collection[str]) -> bool:
    """Whether a cell is one of these words, in any case of its letters."""
    lower = text.lower()
    return any(lower in some for some in words)
