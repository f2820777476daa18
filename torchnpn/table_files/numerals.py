"""Numbers as people write them: 1234.56, 1.234,56 €, $1,234.56, 1 234,56, 1'234.56, 15.3%, (1,200), 1.2e3.

The decimal mark is a point or a comma; the other of the two may separate thousands, and so may spaces and apostrophes.
A cell such as 1,234 can be read both ways, so the decimal mark is decided for a whole column (`columns.settle`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

POINT, COMMA = MARKS = (".", ",")
MISSING = (  # in any case of letters; a cell like this is missing in every column
    *("", "na", "n/a", "n.a.", "n.a", "n. a.", "nan", "-nan", "nat", "<na>", "null", "(null)", "\\n", "none", "?", "."),
    *("#n/a", "#na", "#nv", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!", "#wert!", "k.a.", "k. a."),
)
MISSING_AMONG_NUMBERS = (  # these can be values of a column of text: + and - are the classes of some tables
    *("-", "--", "---", "–", "—", "−", "..", "...", "…", "*", "**", "unknown", "unk", "missing", "not available"),
    *("not applicable", "no data", "no value", "n/d", "n.d.", "nd", "nil", "void", "empty", "blank", "error", "tbd"),
    *("keine angabe", "unbekannt", "inconnu"),
)
TOTALS = tuple(  # the label of a row that sums up the others
    f"{word}{end}"
    for word in (
        *("total", "totals", "grand total", "sum", "summe", "gesamt", "gesamtsumme", "insgesamt", "somme", "totale"),
        *("suma", "average", "mean", "durchschnitt", "mittelwert", "moyenne"),
    )
    for end in ("", ":", " :")
)
_SPACE = r"[ \t\x{00a0}\x{202f}\x{2009}]"
_MINUS = r"\-\x{2212}\x{2013}"
_CURRENCY = (
    r"(?:(?:US|R|C|A|NZ|HK|S)?\$|[€£¥₹₽₩₺₫₴₦฿₪]|(?i:USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|"
    r"RUB|BRL|ZAR|MXN|KRW|SGD|HKD|TRY|ISK|ILS|THB|SFr|Fr|kr|zł|Kč|Rs)\.?)"
)
_UNIT = r"[\pL\p{Sc}°][^\d\s,;()]{0,14}"  # a word, with signs such as km/h or m²
PLAIN = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)$"


def _pattern(decimal: str) -> str:
    """A cell under a decimal mark, in parts."""
    mark, group = ("\\" + char for char in (decimal, COMMA if decimal == POINT else POINT))
    indian = rf"[1-9]\d?(?:{group}\d{{2}})+{group}\d{{3}}(?:{mark}\d*)?|" if decimal == POINT else ""
    number = (
        rf"[1-9]\d{{0,2}}(?:{group}\d{{3}})+(?:{mark}\d*)?|{indian}"
        rf"[1-9]\d{{0,2}}(?:(?:{_SPACE}|['’])\d{{3}})+(?:{mark}\d*)?|\d+{mark}?\d*|{mark}\d+|(?i:inf|infinity)"
    )
    return (
        rf"^(?:{_CURRENCY}{_SPACE}*)?(?P<open>\(?){_SPACE}*(?P<sign>[+{_MINUS}]?){_SPACE}*(?:{_CURRENCY}{_SPACE}*)?"
        rf"(?P<second>[+{_MINUS}]?)(?P<digits>{number})(?P<exponent>(?:[eE][+{_MINUS}]?\d+)?){_SPACE}*(?P<percent>%?)"
        rf"{_SPACE}*(?:{_CURRENCY}{_SPACE}*)?(?P<last>[{_MINUS}]?)(?P<close>\)?)$"
    )


_PATTERNS = {decimal: _pattern(decimal) for decimal in MARKS}
_NO_CENTS = {  # 20.- in Switzerland, 20,-- in Germany, 20/- in India: a whole amount, not a negative one
    decimal: rf"(\d)(?:\{decimal}[{_MINUS}\x{{2014}}]{{1,2}}|/-)(\D|$)" for decimal in MARKS
}

_USUAL = {  # without currency and the like
    POINT: r"^[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?|\d+\.?\d*|\.\d+)$",
    COMMA: r"^[+-]?(?:[1-9]\d{0,2}(?:\.\d{3})+(?:,\d*)?|\d+,?\d*|,\d+)$",
}


def parse(texts: pa.Array, decimal: str) -> pa.Array:
    """Cells as float64 under a decimal mark; null where a cell is null or no number."""
    if pc.all(pc.match_substring_regex(texts, _USUAL[decimal])).as_py():  # nulls do not count; a fifth of the time
        digits = pc.replace_substring(texts, other_mark(decimal), "")
        return pc.utf8_ltrim(pc.replace_substring(digits, COMMA, POINT), "+").cast(pa.float64())
    parts = pc.extract_regex(pc.replace_substring_regex(texts, _NO_CENTS[decimal], r"\1\2"), _PATTERNS[decimal])
    part = {name: pc.struct_field(parts, name) for name in ("digits", "exponent", "percent", "open", "close")}
    signs = [pc.struct_field(parts, name) for name in ("sign", "second", "last")]
    digits = part["digits"]
    if decimal == COMMA:
        digits = pc.replace_substring(pc.replace_substring(digits, POINT, ""), COMMA, POINT)
    digits = pc.replace_substring_regex(digits, rf"(?:{_SPACE}|['’,])", "")
    exponent = pc.replace_substring_regex(part["exponent"], "[−–]", "-")
    numbers = pc.binary_join_element_wise(digits, exponent, "").cast(pa.float64())
    numbers = pc.if_else(pc.equal(part["percent"], "%"), pc.divide(numbers, 100.0), numbers)
    bracketed, closed = pc.not_equal(part["open"], ""), pc.not_equal(part["close"], "")
    negative = pc.or_(bracketed, pc.or_(pc.or_(*map(_is_minus, signs[:2])), _is_minus(signs[2])))
    numbers = pc.if_else(negative, pc.negate(numbers), numbers)
    return pc.if_else(pc.equal(bracketed, closed), numbers, None)


def _is_minus(signs: pa.Array) -> pa.Array:
    return pc.is_in(signs, pa.array(["-", "−", "–"]))


def is_money(texts: pa.Array) -> pa.Array:
    """Whether a cell has a currency, parentheses or /-: then 24.000 has a thousands separator, not three decimals."""
    return pc.match_substring_regex(texts, rf"{_CURRENCY}|[()]|/-")


def is_adorned(texts: pa.Array) -> pa.Array:
    """Whether a number is written in another way than programs write it; null stays null."""
    return pc.invert(pc.match_substring_regex(texts, PLAIN))


def style(text: str, decimal: str) -> str:
    """What is special about the way in which a number is written, in words."""
    one = pa.array([text])
    words = {
        "decimal comma": decimal == COMMA,
        "percent signs": "%" in text,
        "negatives in parentheses": text.endswith(")"),
        "trailing minus signs": bool(re.search(r"\d[-−–]$", text)),
        "currency": bool(pc.match_substring_regex(one, _CURRENCY)[0].as_py()),
        "thousands separators": decimal == POINT
        and bool(pc.match_substring_regex(one, rf"\d(?:,|'|’|{_SPACE})\d")[0].as_py()),
    }
    return ", ".join(word for word, applies in words.items() if applies)


@dataclass(frozen=True)
class Notation:
    """How the numbers of a column are written."""

    decimal: str = POINT
    missing: tuple[str, ...] = ()  # words for a missing cell, beside the usual ones
    unit: str = ""  # word behind the numbers, such as kg

    def read(self, found: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Cells as float64 with null where missing, and whether each cell is text that is no number.

        A new file may also hold plain numbers, or the other decimal mark throughout: a cell that cannot be read with
        this column's mark is read with the other one.
        """
        if not pa.types.is_string(found.type):
            return found, np.zeros(len(found), bool)
        if self.decimal == POINT and (numbers := as_plain(found)) is not None:
            return numbers, np.zeros(len(found), bool)
        texts = without_unit(self.without_missing(found), self.unit)
        own = parse(texts, self.decimal)
        if own.null_count == texts.null_count:
            return own, np.zeros(len(found), bool)
        other = parse(texts, other_mark(self.decimal))
        if not pc.any(_only(own, other)).as_py() and pc.any(_only(other, own)).as_py():
            own, other = other, own  # some cells need the other mark, and none this one
        numbers = pc.if_else(own.is_valid(), own, other)
        return numbers, np.asarray(pc.and_(texts.is_valid(), numbers.is_null()))

    def without_missing(self, found: pa.Array) -> pa.Array:
        """Cells of text, with null for words that mean a missing number."""
        return blanked(found, (*MISSING_AMONG_NUMBERS, *TOTALS, *self.missing))

    def state(self) -> dict[str, Any]:
        """Plain values, for a model file; nothing for the usual notation."""
        unit = {"unit": self.unit} if self.unit else {}
        return {} if self == Notation() else {"decimal": self.decimal, "missing": list(self.missing), **unit}

    @classmethod
    def from_state(cls, state: object) -> Notation:
        """The inverse of `state`; a ValueError where it is something else."""
        match state:
            case {} if not state:
                return cls()
            case {"decimal": ("." | ",") as decimal, "missing": list(missing), **rest} if not rest.keys() - {"unit"}:
                unit = rest.get("unit", "")
                is_unit = isinstance(unit, str) and len(unit) <= 20
                if is_unit and all(isinstance(word, str) for word in missing) and len(missing) <= 1_000:
                    return cls(decimal, tuple(missing), str(unit))
        raise ValueError("The notation of a column or a target should have a decimal mark and words for missing cells.")


USUAL_NOTATION = Notation()


def _only(one: pa.Array, other: pa.Array) -> pa.Array:
    return pc.and_(one.is_valid(), other.is_null())


def blanked(texts: pa.Array, words: Sequence[str]) -> pa.Array:
    """Texts with null for these words, in any case of their Latin letters."""
    lower = pc.ascii_lower(pa.array(words, pa.string()))
    return pc.if_else(pc.is_in(pc.ascii_lower(texts), lower), None, texts)


def unit_of(texts: pa.Array) -> str | None:
    """The word behind the first cell that is a number with a word behind it, such as kg in 12 kg; None without one."""
    parts = pc.extract_regex(texts, rf"^[+{_MINUS}]?\d[\d.,]*{_SPACE}*(?P<unit>{_UNIT})$")
    units = pc.struct_field(parts, "unit").drop_null()
    units = units.filter(pc.invert(pc.match_substring_regex(units, rf"^(?:{_CURRENCY}|[eE])$")))
    return str(units[0].as_py()) if len(units) else None


def without_unit(texts: pa.Array, unit: str | None) -> pa.Array:
    """Texts without this word at their ends, where a digit stands before it."""
    if not unit:
        return texts
    return pc.replace_substring_regex(texts, rf"(\d){_SPACE}*{re.escape(unit)}$", r"\1")


def as_plain(texts: pa.Array) -> pa.Array | None:
    """Cells as float64 the way programs write numbers, or None where one of them is something else."""
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def with_comma(texts: pa.Array, numbers: pa.Array) -> pa.Array:
    """Cells that `as_plain` read, with a comma as the decimal mark: 1.234 would be 1234, and 1.5 is no number."""
    has_point = pc.match_substring(texts, POINT)
    grouped = pc.match_substring_regex(texts, r"^[+-]?[1-9]\d{0,2}\.\d{3}$")
    return pc.if_else(grouped, pc.round(pc.multiply(numbers, 1000.0)), pc.if_else(has_point, None, numbers))


def other_mark(decimal: str) -> str:
    """A comma for a point, and the other way round."""
    return COMMA if decimal == POINT else POINT
