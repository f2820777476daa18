"""What the column to predict is taken for, and which columns nothing can be learnt of."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from torchnpn import table_files, tables
from torchnpn.table_files import TableError


def written(folder: Path, text: str) -> table_files.Table:
    (path := folder / "data.csv").write_text(text, encoding="utf-8")
    return table_files.open_table(path)


@pytest.mark.parametrize(
    ("values", "family"),
    [
        (stats.norm(3, 1), "gaussian"),
        (stats.norm(1000, 1), "gaussian"),
        (stats.expon(scale=5), "gamma"),
        (stats.lognorm(1), "gamma"),
        (stats.gamma(100), "gaussian"),
        (stats.poisson(3), "negative_binomial"),
        (stats.nbinom(2, 0.1), "negative_binomial"),
        (stats.binom(8, 0.7), "gaussian"),  # scores from 0 to 8: no count varies so little
        (stats.randint(1990, 2020), "gaussian"),  # years
        (stats.randint(25, 350), "gaussian"),  # none near 0
        (stats.nbinom(1, 0.0005), "gaussian"),  # from 0, but in thousands
        (stats.beta(2, 5), "beta"),
        (stats.bernoulli(0.3), "class"),
    ],
)
def test_the_kind_of_a_target(values, family):
    drawn = np.asarray(values.rvs(2000, random_state=1), float)
    assert tables.find_kind(drawn).family == family
    assert tables.find_kind(drawn, "gaussian").family == "gaussian"


def read_target(folder: Path, cells: list[str], family: str = "auto") -> tuple:
    table = written(folder, "x,y\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
    found = table_files.survey(table)
    column = tables.find_column(found, "y", family)
    found_schema, _ = tables.find_schema(found, "y")
    rows = tables.load_rows(table, found_schema, column, column.filled)
    return tables.make_target(column, rows.y, family)


@pytest.mark.parametrize(
    ("cells", "classes", "codes"),
    [
        (["no", "yes", "no"] * 5, ("no", "yes"), [0, 1, 0]),
        (["2", "1.0", "1"] * 5, ("1", "2"), [1, 0, 0]),
        (["True", "", "False", "True"] * 5, ("False", "True"), [1, 0, 1]),
    ],
)
def test_classes_keep_their_names(tmp_path, cells, classes, codes):
    about, y, kind = read_target(tmp_path, cells)
    assert (about.family, about.classes) == ("class", classes)
    np.testing.assert_array_equal(y, codes * 5)
    assert "y is taken as 2 classes" in tables.describe_target(about, kind)
    again = about.encode(table_files.cells(pa.array([cells[0], None])), 1)
    np.testing.assert_array_equal(again, [codes[0], np.nan])
    with pytest.raises(TableError, match="'7' in row 4, which is none of the model's classes"):
        about.encode(table_files.cells(pa.array(["7"])), 4)


def test_numbers_can_be_asked_to_be_classes(tmp_path):
    cells = [str(i % 3) for i in range(30)]
    about, _, kind = read_target(tmp_path, cells)
    assert about.family == "gaussian" and "--family class" in tables.describe_target(about, kind)
    about, _, kind = read_target(tmp_path, cells, "class")
    assert (
        about.classes == ("0", "1", "2") and tables.describe_target(about, kind) == "y is taken as 3 classes, as asked."
    )


@pytest.mark.parametrize(
    ("cells", "family", "words"),
    [
        (["3"] * 20, "auto", "same in every row"),
        ([""] * 20, "auto", "missing in all 20 rows"),
        (["3"], "auto", "Only 1 row with a target"),
        (["1", "2", ""] * 3, "auto", "Only 6 rows with a target; expected at least 10"),
        (["a", "b"] * 20, "gamma", r"needs numbers; the target 'y' holds text \(row 1: 'a'\)"),
        (["0", "1.5", "2"] * 20, "gamma", "needs numbers above 0; the target 'y' holds 0, and 20 such"),
        (["0.5", "1.5"] * 20, "beta", "below 1; the target 'y' holds 1.5"),
        (["0.5", "1"] * 20, "poisson", "whole numbers from 0"),
        ([f"{i / 7}" for i in range(1200)], "class", "1,200 different values, too many"),
        ([f"name {i}" for i in range(1200)], "auto", "1,200 different values, too many"),
        (
            [f"name {i}" for i in range(12)],
            "auto",
            "12 different texts in 12 rows, such as 'name 0'",
        ),
        ([f"name {i}" for i in range(12)], "class", "12 different values in 12 rows"),
        ([f"room {i % 60}" for i in range(600)], "auto", "60 different texts in 600 rows"),
        (["1e300", "2e300"] * 20, "auto", "up to 2e\\+300"),
        (["1e-300", "2e-300", "3e-300"] * 20, "auto", "less than 1e-100"),
        (["1", "2", "inf"] * 20, "auto", "infinite number in row 3"),
    ],
)
def test_targets_that_cannot_be_learnt(tmp_path, cells, family, words):
    with pytest.raises(TableError, match=words):
        read_target(tmp_path, cells, family)


def test_a_target_from_a_stranger_is_checked():
    about = tables.Target("y", "class", ("a", "b"), of_numbers=False, marginal=(0.25, 0.75))
    assert tables.Target.from_state(about.state()) == about
    for change in (
        {"family": "cauchy"},
        {"classes": ["a"]},
        {"classes": ["a", "a"]},
        {"classes": []},
        {"marginal": [1.0]},
        {"marginal": [math.nan, 1.0]},
        {"name": 3},
        {"more": 1},
    ):
        with pytest.raises(ValueError, match=r"target|notation"):
            tables.Target.from_state({**about.state(), **change})
