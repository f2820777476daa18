"""What a table may hold: each odd column, frame and target works, or is refused in one clear message."""

from __future__ import annotations

import datetime as dt
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from support.commands import BARE, done, refused

from torchnpn import NPNClassifier, NPNRegressor
from torchnpn.tables import TableModel

N = 24
RNG = np.random.default_rng(0)
GOOD = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)})
Y, CLASSES = RNG.normal(size=N), np.array(["u", "v"] * (N // 2))
QUICK = {"effort": "quick", "max_epochs": 1, "random_state": 0}
DAYS = [dt.datetime(2024, 1, 1) + dt.timedelta(days=i) for i in range(N)]
ZONES = [dt.timezone(dt.timedelta(hours=i)) for i in range(3)]


def every_other(one, other):
    return [one, other] * (N // 2)


def words_of(make):
    """The message of its error in one line; None where it works."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows, and of names that an array does not have
        try:
            make()
        except (ValueError, TypeError) as error:
            message = str(error).rstrip("\n")
            assert len(message) < 600, message
            assert "\n" not in message or message.startswith("The feature names should match"), message
            return message
    return None


def is_as_expected(make, words):
    said = words_of(make)
    assert (said is None) == (words is None), said
    assert words is None or words in said, said


def learns(estimator, X, y):
    model = estimator(**QUICK).fit(X, y)
    found = model.predict(X)
    assert len(found) == N
    assert isinstance(model, NPNClassifier) or np.isfinite(found).all()


SEVERAL = "holds values of several types"
OTHER = "expected numbers, text, categories, dates or times"
COLUMNS = {  # values, words of an estimator, words of a table model; None where it works
    "numbers and text": (every_other(1.5, "x"), SEVERAL, "Column 'c' of the frame holds values of several types"),
    "numbers and digits": (every_other(1, "2"), SEVERAL, SEVERAL),
    "dates and text": ([day if i % 2 else "soon" for i, day in enumerate(DAYS)], SEVERAL, SEVERAL),
    "NaN only": (np.nan, None, None),
    "None only": ([None] * N, None, None),
    "constant": (7.0, None, None),
    "constant text": ("same", None, None),
    "empty text": ("", None, None),
    "an infinite number": ([np.inf, *range(N - 1)], "Correct these values", "infinite number in row 1"),
    "complex": (np.arange(N) * 1j, "real and imaginary parts", "Unsupported numpy type"),
    "lists": ([[1, 2]] * N, "holds lists or other compound values", None),
    "dicts": ([{"k": 1}] * N, "holds lists or other compound values", None),
    "sets": ([{1, 2}] * N, "holds lists or other compound values", None),
    "arrays": ([np.ones(3)] * N, "holds lists or other compound values", None),
    "frames": ([GOOD] * N, "holds lists or other compound values", "Column 'c' of the frame"),
    "tuples": ([(1, 2)] * N, OTHER, None),
    "bytes": (every_other(b"ab", b"cd"), OTHER, None),
    "functions": ([len] * N, OTHER, "Column 'c' of the frame"),
    "intervals": (pd.interval_range(0, N), OTHER, None),
    "identifiers": ([f"id{i}" for i in range(N)], "a different text in nearly every row", None),
    "times with a zone": ([day.replace(tzinfo=ZONES[1]) for day in DAYS], None, None),
    "times of several zones": ([day.replace(tzinfo=ZONES[i % 3]) for i, day in enumerate(DAYS)], None, None),
    "days": ([day.date() for day in DAYS], None, None),
    "times of day": ([dt.time(i % 24) for i in range(N)], None, None),
    "lengths of time": ([dt.timedelta(hours=i) for i in range(N)], None, None),
    "periods": (pd.period_range("2024-01", periods=N, freq="M"), None, None),
    "Decimal": ([Decimal(i) / 7 for i in range(N)], None, None),
    "Decimal with NaN": (every_other(Decimal(1), Decimal("NaN")), None, None),
    "fractions": ([Fraction(i, 3) for i in range(N)], None, "Column 'c' of the frame"),
    "whole numbers beyond int64": ([10**30 + i for i in range(N)], None, "Column 'c' of the frame"),
    "whole numbers beyond float64": (
        pd.Series([10**400] * N, dtype=object),
        "a number that float64 cannot hold",
        "Column 'c' of the frame",
    ),
    "the largest of int64": (np.full(N, 2**63 - 1) - np.arange(N), None, None),
    "float16": (np.arange(N, dtype=np.float16), None, None),
    "truth and None": (every_other(True, None), None, None),
    "nullable truth": (pd.array(every_other(True, None), dtype="boolean"), None, None),
    "nullable numbers": (pd.array(every_other(1, None), dtype="Int64"), None, None),
    "nullable text": (pd.array(every_other("u", None), dtype="string"), None, None),
    "categories with NaN": (pd.Categorical(["u", None, "v", "u"] * (N // 4)), None, None),
    "categories of numbers": (pd.Categorical([1, 2, 3, 4] * (N // 4)), None, None),
    "a level that is not there": (pd.Categorical(["u"] * N, categories=["u", "v"]), None, None),
    "sparse": (pd.arrays.SparseArray([0, 0, 1, 0] * (N // 4)), None, "Sparse pandas data"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_odd_columns(name):
    values, of_estimator, of_table = COLUMNS[name]
    frame = GOOD.assign(c=values)
    is_as_expected(lambda: learns(NPNRegressor, frame, Y), of_estimator)
    is_as_expected(lambda: learns(NPNClassifier, frame, CLASSES), of_estimator)
    is_as_expected(lambda: TableModel.fit(frame.assign(y=Y), "y", **QUICK).predict(frame), of_table)


FRAMES = {
    "two columns of one name": (GOOD.set_axis(["a", "a"], axis=1), "Rename them"),
    "numbers as names": (GOOD.set_axis([0, 1], axis=1), None),
    "text and numbers as names": (GOOD.set_axis(["a", 1], axis=1), "X.columns.astype(str)"),
    "None as a name": (GOOD.set_axis(["a", None], axis=1), "X.columns.astype(str)"),
    "pairs as names": (GOOD.set_axis(pd.MultiIndex.from_tuples([("a", "x"), ("b", "y")]), axis=1), None),
    "bytes as names": (GOOD.set_axis([b"a", b"b"], axis=1), None),
    "no columns": (pd.DataFrame(index=range(N)), "Give X at least one column"),
    "one dimension": (np.arange(float(N)), "Reshape your data"),
    "three dimensions": (np.zeros((N, 2, 2)), "dim 3"),
    "nothing": (None, "Reshape your data"),
    "a path": ("table.csv", "Give a frame"),
    "rows of several lengths": ([[1.0, 2.0], [1.0]] * (N // 2), "Give all rows the same number of values"),
    "rows as dicts": ([{"a": 1.0}] * N, "pd.DataFrame(X)"),
    "a dict": ({"a": [1.0] * N}, "pd.DataFrame(X)"),
    "named fields": (np.array([(1.0, 2)] * N, dtype=[("a", float), ("b", int)]), "pd.DataFrame(X)"),
    "an array of text": (np.array([["p", "q"]] * N), "Give a frame"),
    "an array of digits": (np.array([["1", "2"]] * N), None),
    "infinite": (np.full((N, 2), np.inf), "Correct these values"),
    "complex": (np.ones((N, 2)) * 1j, "real and imaginary parts"),
    "masked": (np.ma.masked_less(GOOD.to_numpy(), 0), None),
    "Arrow with nulls only": (pa.table({"a": np.arange(float(N)), "n": pa.nulls(N)}), None),
    "Arrow with lists": (pa.table({"a": np.arange(float(N)), "n": [[1]] * N}), OTHER),
    "Arrow with null levels": (pa.table({"d": pa.array(every_other("u", None)).dictionary_encode()}), None),
}


@pytest.mark.parametrize("name", FRAMES)
def test_odd_frames(name):
    X, words = FRAMES[name]
    is_as_expected(lambda: learns(NPNRegressor, X, Y), words)
    is_as_expected(lambda: learns(NPNClassifier, X, CLASSES), words)


NOT_KNOWN = "Leave out"
TARGETS = {  # values, words of a regressor, of a classifier, and of a table model
    "NaN": (np.where(np.arange(N) == 3, np.nan, Y), NOT_KNOWN, NOT_KNOWN, None),
    "infinite": (np.where(np.arange(N) == 3, np.inf, Y), "correct infinite ones", "correct infinite ones", "in row 4"),
    "None": (every_other(1.0, None), "Drop rows without a target", NOT_KNOWN.lower(), "the same in every row"),
    "nullable": (pd.array(every_other(1.0, None), dtype="Float64"), NOT_KNOWN, NOT_KNOWN, "the same in every row"),
    "text": (CLASSES, "got text such as 'u'. For classes take NPNClassifier", None, None),
    "digits": (np.array([str(i % 3) for i in range(N)]), None, None, None),
    "numbers and text": (every_other(1, "u"), "got text such as", None, SEVERAL),
    "objects of both": (np.array(every_other(1, "u"), dtype=object), "Give a frame", "can be sorted together", SEVERAL),
    "constant": (np.ones(N), None, "at least two classes", "the same in every row"),
    "times": (np.array(DAYS, dtype="datetime64[s]"), "those since a first one", None, "which are dates"),
    "dates": ([day.date() for day in DAYS], "Give an array", "text or whole numbers", "which are dates"),
    "lengths of time": (pd.to_timedelta(np.arange(N), unit="h"), "such as days", None, "expected numbers or text"),
    "truth": (CLASSES == "u", None, None, None),
    "complex": (Y * 1j, "real and imaginary parts", "real and imaginary parts", "Unsupported numpy type"),
    "lists": ([[1], [1, 2]] * (N // 2), "each cell one number", "each cell one number", "expected numbers or text"),
    "bytes": (every_other(b"a", b"b"), "got text such as", "labels represented as bytes", "expected numbers or text"),
    "Decimal": ([Decimal(i % 3) for i in range(N)], None, "y.astype(str)", None),
    "beyond float64": ([10**400] * N, "Divide the column", "y.astype(str)", "Column 'y' of the frame"),
    "tiny": (Y * 1e-320, "Multiply y by a power of ten", "Take NPNRegressor", "Multiply the column"),
    "with fractions": (Y, None, "Take NPNRegressor", None),
    "too short": (Y[:-1], "inconsistent numbers of samples", "inconsistent numbers of samples", ...),
    "none": (None, "requires y to be passed", "requires y to be passed", ...),
    "one number": (3.0, "a target for each row", "Give one label for each row", ...),
    "a dict": ({"a": 1}, "a target for each row", "Give one label for each row", ...),
    "no columns": (np.zeros((N, 0)), "0 feature(s)", "0 feature(s)", ...),
    "two columns": (np.column_stack([Y, Y]), None, "Give one label for each row", ...),
}


@pytest.mark.parametrize("name", TARGETS)
def test_odd_targets(name):
    y, of_regressor, of_classifier, of_table = TARGETS[name]
    is_as_expected(lambda: learns(NPNRegressor, GOOD, y), of_regressor)
    is_as_expected(lambda: learns(NPNClassifier, GOOD, y), of_classifier)
    if of_table is not ...:
        frame = GOOD.assign(y=pd.Series(y, dtype=object) if name == "beyond float64" else y)
        is_as_expected(lambda: TableModel.fit(frame, "y", **QUICK), of_table)


LEARNT = GOOD[["a"]].assign(kind=CLASSES, day=DAYS, flag=every_other(True, False))
NEW = {  # rows to predict, words of an estimator, words of a table model
    "the same": (LEARNT, None, None),
    "another order": (LEARNT[["flag", "day", "kind", "a"]], "Give X[model.feature_names_in_]", None),
    "a column less": (LEARNT.drop(columns="kind"), "'kind' is missing", "'kind' is missing"),
    "a column more": (LEARNT.assign(z=1), "Give X[model.feature_names_in_]", None),
    "another name": (LEARNT.rename(columns={"a": "A"}), "Did you mean 'A'?", "Did you mean 'A'?"),
    "a column twice": (pd.concat([LEARNT, LEARNT[["a"]]], axis=1), "Rename them", "Duplicate column names"),
    "numbers as names": (LEARNT.set_axis(range(4), axis=1), "There are: 0, 1, 2, 3", "There are: 0, 1, 2, 3"),
    "too few columns": ([[1.0, "u"]], "is expecting 4 features", "A table should be a frame"),
    "a dict": ({"a": 1}, "X expects rows and columns", "A table should be a frame"),
    "no rows": (LEARNT.iloc[:0], "0 sample(s)", "has no rows"),
    "one row": (LEARNT.iloc[:1], None, None),
    "text for numbers": (LEARNT.assign(a="x"), "should hold numbers; row 0 holds 'x'", "row 1 holds 'x'"),
    "digits for numbers": (LEARNT.assign(a="1.5"), None, None),
    "lists for numbers": (LEARNT.assign(a=[[1]] * N), "lists or other compound values", "should hold numbers"),
    "complex for numbers": (LEARNT.assign(a=1j), OTHER, "Unsupported numpy type"),
    "infinite": (LEARNT.assign(a=np.inf), "Correct these values", "Correct the cell"),
    "numbers for text": (LEARNT.assign(kind=1.5), None, None),
    "a level never seen": (LEARNT.assign(kind="w"), None, None),
    "categories for text": (LEARNT.assign(kind=pd.Categorical(CLASSES)), None, None),
    "text for dates": (LEARNT.assign(day="soon"), "should hold dates; row 0 holds 'soon'", "should hold dates"),
    "numbers for dates": (LEARNT.assign(day=3.0), "should hold dates; it holds numbers", "should hold dates"),
    "written dates": (LEARNT.assign(day="2024-03-01"), None, None),
    "a zone": (LEARNT.assign(day=[d.replace(tzinfo=ZONES[1]) for d in DAYS]), "without a time zone", "without a time"),
    "numbers for truth": (LEARNT.assign(flag=1), None, None),
    "all missing": (LEARNT.assign(a=np.nan, kind=None, day=pd.NaT, flag=None), None, None),
    "Arrow": (pa.Table.from_pandas(LEARNT), None, None),
}


@pytest.fixture(scope="module")
def fitted():
    classifier = NPNClassifier(**QUICK).fit(LEARNT, CLASSES)
    return NPNRegressor(**QUICK).fit(LEARNT, Y), classifier, TableModel.fit(LEARNT.assign(y=Y), "y", **QUICK)


@pytest.mark.parametrize("name", NEW)
def test_odd_rows_to_predict(name, fitted):
    X, words, of_table = NEW[name]
    for model, expected in zip(fitted, (words, words, of_table), strict=True):
        is_as_expected(lambda model=model: model.predict(X), expected)


def test_odd_arrays_to_predict():
    model = NPNRegressor(**QUICK).fit(GOOD[["a"]].to_numpy(), Y)
    for X, words in (
        (np.zeros((3, 2)), "is expecting 1 features"),
        (np.zeros(3), "Reshape your data"),
        (np.zeros((2, 1, 1)), "dim 3"),
        (np.zeros((0, 1)), "0 sample(s)"),
        ([["x"]], "Give a frame"),
        ([[np.inf]], "Correct these values"),
        (scipy.sparse.csr_matrix(np.ones((3, 1))), None),
    ):
        is_as_expected(lambda X=X: model.predict(X), words)


FILES = {  # cells of a column, cells of the target, words of the command; None where it works
    "numbers and text": (every_other("1.5", "x"), Y, None),
    "infinite": (every_other("inf", "1"), Y, "Column 'c' holds an infinite number in row 1"),
    "whole numbers beyond float64": (["1" + "0" * 400] * N, Y, None),
    "nothing": ([""] * N, Y, None),
    "lists": (["[1, 2]"] * N, Y, None),
    "two ways of dates": (every_other("2024-01-01", "31.12.2024"), Y, None),
    "a target that is missing": (CLASSES, [""] * N, "The target 'y' is missing in all 24 rows"),
    "a constant target": (CLASSES, ["1"] * N, "The target 'y' is the same in every row"),
    "an infinite target": (CLASSES, every_other("inf", "1"), "Column 'y' holds an infinite number in row 1"),
    "a target of dates": (CLASSES, [str(day.date()) for day in DAYS], "which are dates"),
    "a target of identifiers": (CLASSES, [f"id{i}" for i in range(N)], "too many for classes"),
}


@pytest.mark.parametrize("name", FILES)
def test_odd_cells_of_a_file(name, tmp_path):
    cells, y, words = FILES[name]
    GOOD.assign(c=cells, y=y).to_csv(tmp_path / "table.csv", index=False)
    arguments = "fit", tmp_path / "table.csv", "-t", "y", "-o", tmp_path / "model.npn", *BARE
    if words is None:
        done(*arguments)
        assert (tmp_path / "model.npn").is_file()
    else:
        assert words in refused(*arguments)
