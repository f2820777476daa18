"""What the cells of a row say, and what each of them does to the prediction."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from torchnpn.table_files import arrow_table
from torchnpn.tables import TableModel, cell_effects, cells_in_words

ROWS = 120
NAMES = ["number", "kind", "size", "day", "moment", "clock"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    moments = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 500 * 24 * 60, ROWS), unit="min")
    number, kind = rng.normal(size=ROWS).round(2), rng.choice(["a", "b"], ROWS)
    return pd.DataFrame(
        {
            "number": np.where(rng.random(ROWS) < 0.2, np.nan, number),
            "kind": kind,
            "size": rng.choice(["small", "middle", "large"], ROWS),
            "day": moments.strftime("%Y-%m-%d"),
            "moment": moments.strftime("%Y-%m-%d %H:%M"),
            "clock": moments.strftime("%H:30"),
            "y": 2 * number + (kind == "a") + rng.normal(size=ROWS),
            "label": np.where(number > 0, "high", "low"),
        }
    )


def fitted(table, target):
    return TableModel.fit(table[[*NAMES, target]], target, hidden=(6,), max_epochs=5, device="cpu")


def encoded(model, table):
    return model.schema.encode(arrow_table(table[NAMES]).to_batches()[0])


def test_cells_come_back_in_words(table):
    model = fitted(table, "y")
    for x, row in zip(encoded(model, table), table[NAMES].to_dict("records"), strict=True):
        found = cells_in_words(model.schema, x)
        assert found.pop("number") == (None if np.isnan(row["number"]) else f"{row['number']:.4g}")
        midnight = " 00:00"
        assert found == {name: str(row[name]).removesuffix(midnight) for name in NAMES[1:]}


@pytest.mark.parametrize("target", ["y", "label"])
def test_effects_are_what_predictions_say_without_the_cell(table, target):
    model = fitted(table, target)
    for i in (0, int(np.flatnonzero(table["number"].isna())[0])):
        row = table[NAMES].iloc[[i]]
        found = cell_effects(model, encoded(model, row))
        assert set(found.names) == {name for name in NAMES if row[name].notna().all()}
        whole = model.predict(row)
        column, spread = f"{target}_mean", f"{target}_std"
        if target == "label":
            column, spread = f"label_probability_{whole['label_predicted'][0]}", "label_uncertainty"
        for name, by_mean, by_spread in zip(*found, strict=True):
            without = model.predict(row.assign(**{name: None}))
            assert by_mean == pytest.approx((whole[column] - without[column])[0], abs=1e-9)
            assert by_spread == pytest.approx((whole[spread] - without[spread])[0], abs=1e-9)
