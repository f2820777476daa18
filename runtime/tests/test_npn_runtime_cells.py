"""Cells become the numbers that torchnpn makes of them: its own readers for Arrow are the reference."""

from __future__ import annotations

import datetime
import math

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from npn_runtime import dates, numerals
from npn_runtime.cells import Column
from npn_runtime.errors import TableError

from torchnpn import table_files
from torchnpn.columns import dates as their_dates
from torchnpn.columns.cells import label
from torchnpn.table_files import Notation as TheirNotation

WORDS = ("unknown", "k.A.", "-", "…", "Total", "n/a", "None", "?", "#DIV/0!", "so far")
NUMBERS = st.from_regex(
    r"[-+(]?[$€]?[0-9]{1,3}([., '’][0-9]{1,3}){0,3}(e[-+]?[0-9]{1,2})?( ?(%|€|kg|EUR))?[)-]?", fullmatch=True
)
DATES = st.from_regex(
    r"[0-9]{1,4}([-/.])[0-9]{1,2}\1[0-9]{1,4}([T ][0-9]{1,2}:[0-9]{2}(:[0-9]{2})?( ?[ap]m)?Z?)?", fullmatch=True
)
ANY = st.text("0123456789.,-+()%$€ ekgKG'’/−–", max_size=10)
CELLS = st.lists(NUMBERS | ANY | st.sampled_from(WORDS), min_size=1, max_size=4)
NOTATIONS = [(".", (), ""), (",", (), ""), (".", ("so far",), "kg"), (",", (), "€")]


@pytest.mark.parametrize("notation", NOTATIONS, ids=str)
@given(texts=CELLS)
@example(texts=["1,234", "1.5"])
@example(texts=["1,5", "1,234"])
@example(texts=["12,50 €", "-7"])
@example(texts=["(1,200)", "20.-", "15.3%", "1 234,56", "1e3", "5 kg", ".5", "5."])
def test_numbers_are_read_as_torchnpn_reads_them(notation, texts):
    decimal, missing, unit = notation
    found = table_files.cells(pa.array(texts), ())
    expected, is_odd = TheirNotation(decimal, missing, unit).read(found)
    ours = numerals.Notation(decimal, frozenset(missing), unit)
    ours = ours.fitting({text.strip() for text in texts})
    for text, number, odd in zip(texts, expected.to_pylist(), np.asarray(is_odd).tolist(), strict=True):
        read = ours.read(text.strip())
        if odd:
            assert read is None, text
        elif number is None:
            assert read is not None and math.isnan(read), text
        else:
            assert read == pytest.approx(number, rel=1e-15), text


@pytest.mark.parametrize("order", ["ymd", "dmy", "mdy"])
@given(text=DATES)
@example(text="2024-02-30")
@example(text="31.12.2024 8:05 pm")
@example(text="2024-12-31T23:59:59.25+02:00")
def test_dates_are_read_as_torchnpn_reads_them(order, text):
    assert dates.parsed(text, order) == their_dates.parsed(text, order)


NUMBER = {"name": "x", "kind": "number"}
CATEGORY = {"name": "x", "kind": "category", "levels": ["a", "1", "2.5"], "other": False}
DAY = datetime.date(2024, 12, 31)
SECONDS = 1_735_603_200.0


def encoded(about, cells, words=frozenset()):
    return Column.of(about, words).encode(cells).tolist()


@pytest.mark.parametrize(
    ("about", "cells", "expected"),
    [
        (NUMBER, [1, 2.5, None, math.nan, pd.NA, True, "1,234", "n.a."], [1, 2.5, None, None, None, 1, 1234, None]),
        (NUMBER, np.array([1, 2], np.int8), [1, 2]),
        (NUMBER, [datetime.timedelta(hours=12), np.timedelta64(2, "D")], [0.5, 2]),
        (NUMBER | {"missing": ["far"]}, ["Far", "3"], [None, 3]),
        (CATEGORY, ["a", 1, 1.0, 2.5, "1", " a ", "b", "", None], [0, 1, 1, 2, 1, 0, None, None, None]),
        (CATEGORY | {"other": True}, ["a", "b", None], [0, 3, None]),
        ({"name": "x", "kind": "date"}, ["2024-12-31", DAY, np.datetime64("2024-12-31"), None], [*[SECONDS] * 3, None]),
        ({"name": "x", "kind": "date"}, pd.to_datetime(["2024-12-31"]).to_numpy(), [SECONDS]),
        ({"name": "x", "kind": "date", "order": "dmy"}, ["31.12.2024 01:00"], [SECONDS + 3600]),
        ({"name": "x", "kind": "date", "clock": "utc"}, ["2024-12-31 01:00+01:00"], [SECONDS]),
        ({"name": "x", "kind": "date", "clock": "clock"}, [datetime.time(1, 0, 0, 500_000)], [3600.5]),
    ],
)
def test_cells_of_every_kind(about, cells, expected):
    assert encoded(about, cells) == pytest.approx([math.nan if x is None else x for x in expected], nan_ok=True)


def test_texts_of_a_frame_are_categories_as_they_stand():
    """An estimator that learnt from a frame may have a category called NA."""
    column = Column.of({"name": "x", "kind": "category", "levels": ["NA", " b"]}, None)
    assert column.encode(["NA", " b"]).tolist() == [0, 1]
    assert np.isnan(column.of_files().encode(["NA", ""])).all()


@pytest.mark.parametrize(
    ("about", "cell", "words"),
    [
        (NUMBER, "seven", "'x' should hold numbers; row 2 holds 'seven'"),
        (NUMBER, [1], "row 2 holds"),
        (NUMBER, math.inf, "holds inf in row 2"),
        (NUMBER, 1e39, r"holds 1e\+39 in row 2"),
        (CATEGORY, ["a"], "should hold text or numbers"),
        ({"name": "x", "kind": "date"}, "tomorrow", "should hold times without a time zone; row 2 holds 'tomorrow'"),
        ({"name": "x", "kind": "date"}, "2024-12-31 01:00Z", "without a time zone"),
        ({"name": "x", "kind": "exposure"}, 0.0, "'x' should be a number above 0 in every row; it is 0 in row 2"),
        ({"name": "x", "kind": "exposure"}, None, "it is missing in row 2"),
    ],
)
def test_what_cannot_be_read_is_named(about, cell, words):
    good = {"category": "a", "date": DAY}.get(about["kind"], 1.0)
    with pytest.raises(TableError, match=words):
        encoded(about, [good, cell])


def test_labels_of_numbers_are_those_of_torchnpn():
    for number in (1.0, 0.1, 1e20, 123456789.125, -0.0):
        about = {"name": "x", "kind": "category", "levels": [label(number)]}
        assert encoded(about, [number]) == [0.0]
