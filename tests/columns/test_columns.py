"""Columns become inputs: the same for the same table, whether pandas, Arrow or numpy holds it; and files keep them."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from torchnpn.columns import MOST_LEVELS, Category, Columns, Date, Frame, Number, Texts, Times, learn, orders

RNG = np.random.default_rng(0)
HOURS = pd.date_range("2020-01-01", "2021-12-31 23:00", freq="7h")
ROWS = len(HOURS)
TABLE = {
    "number": np.where(RNG.random(ROWS) < 0.1, np.nan, RNG.normal(size=ROWS)),
    "whole": RNG.integers(-5, 5, ROWS),
    "flag": RNG.random(ROWS) < 0.5,
    "text": RNG.choice(np.array(["u", "v", "w", None], object), ROWS),
    "moment": HOURS,
    "day": HOURS.strftime("%Y-%m-%d").to_numpy(object),
}


def one(values: object) -> Columns:
    """The column of a frame with no other."""
    return learn(Frame.of(pd.DataFrame({"x": values})))


def encoded(columns: Columns, values: object) -> np.ndarray:
    frame = Frame.of(pd.DataFrame({"x": values}))
    return columns.encoded(frame.every(), frame.rows)


def in_arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


WAYS = {
    "pandas": lambda frame: frame,
    "categories": lambda frame: frame.astype({"text": "category"}),
    "nullable": lambda frame: frame.astype({"whole": "Int16", "flag": "boolean", "text": "string"}),
    "Arrow types": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "arrow": in_arrow,
    "arrow categories": lambda frame: in_arrow(frame.astype({"text": "category"})),
    "arrow in pieces": lambda frame: pa.concat_tables([in_arrow(frame[:300]), in_arrow(frame[300:])]),
    "batch": lambda frame: in_arrow(frame).combine_chunks().to_batches()[0],
    "nanoseconds": lambda frame: frame.astype({"moment": "datetime64[ns]"}),
    "dates": lambda frame: frame.assign(day=pd.to_datetime(frame["day"]).dt.date),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_hold_a_table(way):
    expected = learn(Frame.of(pd.DataFrame(TABLE)))
    frame = Frame.of(WAYS[way](pd.DataFrame(TABLE)))
    assert learn(frame) == expected
    X = expected.encoded(frame.every(), frame.rows)
    whole = Frame.of(pd.DataFrame(TABLE))
    np.testing.assert_array_equal(X, expected.encoded(whole.every(), whole.rows))
    assert X.shape == (ROWS, expected.width) == (ROWS, len(expected.inputs))
    np.testing.assert_array_equal(X[:, 0], TABLE["number"])


def test_polars_frames():
    polars = pytest.importorskip("polars")
    frame = pd.DataFrame(TABLE)
    assert learn(Frame.of(polars.DataFrame(in_arrow(frame)))) == learn(Frame.of(frame))


def test_tables_of_numbers_have_no_columns():
    numbers = pd.DataFrame({name: TABLE[name] for name in ("number", "whole", "flag")})
    for plain in (numbers, numbers.convert_dtypes(), in_arrow(numbers)):
        assert learn(Frame.of(plain)) is None
    assert Frame.of(numbers.to_numpy()) is None


# Categories ----------------------------------------------------------------------------------------------------------


def test_categories_are_one_hot_by_frequency():
    columns = one(["b"] * 5 + ["a"] * 5 + ["c"] * 7 + [None])
    assert columns.columns == (Category("x", ("c", "a", "b")),)
    np.testing.assert_array_equal(
        encoded(columns, ["a", "c", None, "new"]), [[0, 1, 0], [1, 0, 0], [np.nan] * 3, [np.nan] * 3]
    )


def test_two_levels_make_one_input():
    np.testing.assert_array_equal(encoded(one(["u", "v", "v"]), ["u", "v", None]), [[0], [1], [np.nan]])


def test_rare_and_new_levels_are_other():
    columns = one([f"v{i}" for i in range(300)] * 2 + ["v7"] * 5)
    (column,) = columns.columns
    assert len(column.values) == MOST_LEVELS and column.values[0] == "v7" and column.has_other
    X = encoded(columns, ["v99", "unheard of", None, "v7"])
    np.testing.assert_array_equal(X[1], np.eye(MOST_LEVELS + 1)[-1])
    assert np.isnan(X[2]).all() and X[3, 0] == 1


@pytest.mark.parametrize(
    ("categories", "later"),
    [([1, 2, 3], [1.0, 2.0, 3.0]), ([True, False], ["True", "False"]), ([0.5, 1 / 3], [0.5, 1 / 3])],
)
def test_levels_of_any_type_meet_again(categories, later):
    columns = one(pd.Categorical(categories * 3))
    np.testing.assert_array_equal(encoded(columns, later), encoded(columns, pd.Categorical(categories)))


def test_levels_that_no_row_has_are_no_inputs():
    assert one(pd.Categorical(["a"] * 3, categories=["a", "b"])).inputs == ("x=a",)


# Dates ---------------------------------------------------------------------------------------------------------------


def test_dates_are_days_and_the_periods_that_are_covered():
    columns = one(HOURS)
    assert columns.inputs[0] == "x: days" and len(columns.inputs) == 7
    X = encoded(columns, pd.to_datetime(["2020-07-02 12:00", "2020-07-03 18:00", None]))
    np.testing.assert_allclose(X[1, 0] - X[0, 0], 1.25)
    turn = 2 * np.pi * (31 + 29 + 31 + 30 + 31 + 30 + 1.5) / 366  # days of 2020 that have passed
    np.testing.assert_allclose(X[0, 1:3], [math.sin(turn), math.cos(turn)])
    weekday = 2 * np.pi * np.arange(7) / 7
    angles = [np.arctan2(*row) % (2 * np.pi) for row in X[:2, 3:5]]
    np.testing.assert_allclose((angles[1] - angles[0]) % (2 * np.pi), weekday[1])
    np.testing.assert_allclose(X[:2, 5:], [[0, -1], [-1, 0]], atol=1e-12)  # noon, and six in the evening
    assert np.isnan(X[2]).all()


@pytest.mark.parametrize(
    ("dates", "periods"),
    [
        (pd.date_range("2020-01-01", periods=40, freq="D"), ("week",)),
        (pd.date_range("2020-01-01", periods=12, freq="MS"), ("year", "week")),
        (pd.date_range("2020-01-06", periods=100, freq="W-MON"), ("year",)),
        (pd.date_range("2000-01-01", periods=20, freq="YS"), ("week",)),
        (pd.date_range("2020-01-01", periods=40, freq="h"), ("day",)),
        (pd.date_range("2020-01-01", periods=40, freq="min"), ()),
        ([dt.date(2020, 1, 1)] * 5, ()),
    ],
)
def test_only_periods_in_which_rows_differ(dates, periods):
    (column,) = one(dates).columns
    assert isinstance(column, Date) and column.periods == periods


def test_time_zones_are_read_in_utc():
    local = HOURS.tz_localize("Europe/Berlin", nonexistent="shift_forward", ambiguous="NaT")
    columns = one(local)
    np.testing.assert_array_equal(encoded(columns, local), encoded(columns, local.tz_convert("US/Pacific")))
    with pytest.raises(ValueError, match="'x' should hold times with a time zone, as in training; it holds times with"):
        encoded(columns, HOURS)
    texts = local.tz_convert("UTC").strftime("%Y-%m-%dT%H:%M:%SZ")
    np.testing.assert_array_equal(encoded(columns, texts), encoded(columns, local))


def test_times_of_day():
    columns = one([dt.time(hour) for hour in range(24)])
    assert columns.inputs == ("x: sine of the day", "x: cosine of the day")
    np.testing.assert_allclose(encoded(columns, [dt.time(6), None]), [[1, 0], [np.nan, np.nan]], atol=1e-12)


def test_lengths_of_time_are_days():
    np.testing.assert_array_equal(encoded(one(pd.to_timedelta([36, 48, None], unit="h")), [1.0]), [[1.0]])
    X = encoded(one(pd.to_timedelta([36], unit="h")), pd.to_timedelta([36, None], unit="h"))
    np.testing.assert_array_equal(X, [[1.5], [np.nan]])


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["2024-02-29", "2023-1-5"], ("ymd",)),
        (["2024-02-29T10:00:00.5+02:00", "2024-02-29 10:00Z"], ("ymd",)),
        (["2024/02/29", "2024.03.01"], ("ymd",)),
        (["31.12.2024", "01.02.2024"], ("dmy",)),
        (["01.02.2024"], ("dmy",)),
        (["12/31/2024", "01/02/2024 3:45 PM"], ("mdy",)),
        (["31/12/2024", "01/02/2024"], ("dmy",)),
        (["01/02/2024", "03/04/2024"], ("dmy", "mdy")),
        (["31/12/2024", "12/31/2024"], ()),
        (["2023-02-29"], ()),
        (["2024-01-01", "soon"], ()),
        (["20240101"], ()),
        (["1.2.24"], ()),
        (["2024-01-01 25:00"], ()),
        ([], ()),
    ],
)
def test_orders_of_year_month_and_day(texts, found):
    assert orders(texts) == found


def test_dates_in_text_are_those_that_are_written():
    day = ["31.12.2020 12:00", "01.02.2021 00:30:15,25", None] * 2
    columns = one(day)
    assert columns.columns[0].order == "dmy"
    moments = np.array(["2020-12-31T12:00", "2021-02-01T00:30:15.25", "NaT"] * 2, "datetime64[us]")
    np.testing.assert_array_equal(encoded(columns, day), encoded(columns, moments))


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([f"name {i}" for i in range(40)], "different text in nearly every row.*X.drop"),
        ([f"{i / 7:.3f}" for i in range(40)], r"numbers as text.*astype\(float\)"),
        (["01/02/2024", "03/04/2024"], "day or with the month first.*dayfirst"),
        ([1, "a"], "several types, such as '1' .int. and 'a' .str."),
        ([[1], [2]], "lists or other compound values"),
        ([b"a", b"b"], "values of type bytes"),
        ([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], "with a time zone and times without"),
        ([10**400, 1], "float64 cannot hold"),
    ],
)
def test_columns_from_which_nothing_can_be_learnt(values, words):
    with pytest.raises(ValueError, match=f"'x' holds .*{words}"):
        learn(Frame.of(pd.DataFrame({"x": pd.Series(values, dtype=object)})))


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        (Number("x"), ["1.5", "oops"], "hold numbers; row 1 holds 'oops'"),
        (Number("x"), pd.to_datetime(["2020-01-01"]), "hold numbers; it holds dates"),
        (Date("x", 0.0, ()), ["2020-01-01", "oops"], "hold dates; row 1 holds 'oops'"),
        (Date("x", 0.0, ()), [1.0], "hold dates; it holds numbers"),
        (Date("x", 0.0, ("day",), "clock"), ["2020-01-01"], "times of day"),
    ],
)
def test_cells_of_another_kind(column, values, words):
    with pytest.raises(ValueError, match=f"'x' should .*{words}"):
        encoded(Columns((column,)), values)


def test_other_cells_that_can_be_read():
    np.testing.assert_array_equal(encoded(Columns((Number("x"),)), ["1.5", None, "-2e3"]), [[1.5], [np.nan], [-2000]])
    np.testing.assert_array_equal(encoded(Columns((Number("x"),)), [Decimal("0.5"), None]), [[0.5], [np.nan]])
    for column in (Number("x"), Category("x", ("a", "b")), Date("x", 0.0, ("week",))):
        for nothing in ([None, None], [math.nan] * 2, pd.to_datetime([None, None])):
            if not (isinstance(column, Number) and isinstance(nothing, pd.DatetimeIndex)):
                assert np.isnan(encoded(Columns((column,)), nothing)).all()


# Files ---------------------------------------------------------------------------------------------------------------

KINDS = (
    Number("a", 1.5, (1.0, 2.0)),
    Number("b"),
    Category("c", ("u", "v", "w"), True),
    Date("d", 18000.5, ("year", "day"), "utc", "dmy"),
)


def test_columns_survive_their_state():
    columns = Columns(KINDS)
    assert Columns.from_state(json.loads(json.dumps(columns.state()))) == columns
    assert columns.groups == {"a": slice(0, 1), "b": slice(1, 2), "c": slice(2, 6), "d": slice(6, 11)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize(
    "odd", [None, [], {}, "", -1, math.inf, math.nan, [[]], ["x", "x"], [1], True, "oops", [1e400, 1]]
)
def test_states_that_nobody_wrote_are_refused(kind, odd):
    state = kind.state()
    for name in state:
        wrong = {**state, name: odd}
        try:
            column = Columns.from_state([wrong]).columns[0]
        except ValueError:
            continue
        assert json.loads(json.dumps(column.state())) == wrong  # what is taken means what it says
    for wrong in ([{**state, "more": 1}], [dict(list(state.items())[1:])], [odd], odd):
        with pytest.raises(ValueError, match=r"expected|should"):
            Columns.from_state(wrong)


def test_texts_and_times_are_small_records():
    assert Texts(np.array([0, -1]), ["a"]).different == ["a"]
    assert Times(np.array(["2020-01-01"], "datetime64[us]")).clock == "local"
