"""`TableModel.fit` learns from a frame what it learns from the file that holds the same rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import torchnpn as npn
from torchnpn.table_files import TableError
from torchnpn.tables import TableModel

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "size": RNG.normal(size=120).round(6),
        "colour": RNG.choice(["red", "green", None], 120),
        "when": pd.date_range("2020-01-01", periods=120, freq="9D"),
    }
)
FRAME["price"] = (FRAME["size"] + (FRAME["colour"] == "red") + 0.1 * RNG.normal(size=120)).round(6)
QUICK = {"hidden": (4,), "max_epochs": 3}


def test_frames_and_files(tmp_path):
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    model = TableModel.fit(FRAME, "price", **QUICK)
    again = TableModel.fit(tmp_path / "a.csv", "price", **QUICK)
    assert model.schema == again.schema and model.target == again.target and model.record.rows == 100
    npn.save(model, tmp_path / "a.npn")
    loaded = npn.load(tmp_path / "a.npn")
    expected = model.predict(FRAME)
    assert list(expected) == ["price_mean", "price_std", "price_low", "price_high"]
    for one, rows in (
        (again, FRAME),
        (loaded, FRAME),
        (model, pa.Table.from_pandas(FRAME)),
        (model, FRAME[["colour", "when", "size"]]),
    ):
        for name, values in one.predict(rows).items():
            np.testing.assert_allclose(values, expected[name], rtol=1e-6)


def test_classes():
    model = TableModel.fit(FRAME.dropna(), "colour", seed=1, **QUICK)
    assert model.target.is_class and set(model.predict(FRAME)["colour_predicted"]) <= {"red", "green"}


@pytest.mark.parametrize(
    ("data", "target", "words"),
    [
        (FRAME, "prize", "no column 'prize'. Did you mean 'price'"),
        (FRAME[:0], "price", "no rows"),
        (FRAME.to_numpy(), "price", "should be a frame .* got ndarray"),
        (FRAME.assign(price=1.0), "price", "same in every row"),
        (FRAME.assign(size=[1, "a"] * 60), "price", "several types"),
    ],
)
def test_tables_from_which_nothing_can_be_learnt(data, target, words):
    with pytest.raises(TableError, match=words):
        TableModel.fit(data, target, **QUICK)
