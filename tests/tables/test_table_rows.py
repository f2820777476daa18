"""Rows of a table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from test_tables import RNG, written

from torchnpn import table_files, tables
from torchnpn.table_files import TableError, read


def test_the_sample_is_even_and_whole_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "_BLOCK_BYTES", 500)
    table = written(tmp_path, "x,y\n" + "".join(f"{i},{i if i % 2 else ''}\n" for i in range(400)))
    found = table_files.survey(table)
    column = tables.find_column(found, "y", "auto")
    found_schema, _ = tables.find_schema(found, "y")
    (number,) = found_schema.columns
    drawn = np.zeros(400)
    for seed in range(60):
        rows = tables.load_rows(table, found_schema, column, 50, seed)
        np.testing.assert_array_equal(rows.X[:, 0] + number.origin, rows.y)
        assert len(set(rows.y)) == 50
        drawn[rows.y.astype(int)] += 1
    assert drawn[::2].sum() == 0
    assert stats.chisquare(drawn[1::2]).pvalue > 1e-3


def test_a_file_that_changes_between_readings(tmp_path):
    lines = [f"{i},{i}\n" for i in range(100)]
    table = written(tmp_path, "x,y\n" + "".join(lines))
    found = table_files.survey(table)
    column, (found_schema, _) = tables.find_column(found, "y", "auto"), tables.find_schema(found, "y")
    for changed, word in ((lines[:50], "shrank"), (lines * 2, "grew")):
        table.path.write_text("x,y\n" + "".join(changed))
        with pytest.raises(TableError, match=word):
            tables.load_rows(table, found_schema, column, 100)


def test_memory_is_bounded():
    assert tables.rows_to_keep(5_000_000, 20, 1_000_000) == 1_000_000
    assert tables.rows_to_keep(5_000, 20, 1_000_000) == 5_000
    assert tables.rows_to_keep(5_000_000, 2_500, 1_000_000) == 100_000


@pytest.mark.parametrize(("rows", "held_out"), [(10, 2), (50, 10), (100, 20), (150, 20), (1000, 100)])
def test_rows_are_held_out(rows, held_out):
    training, validation = tables.split_rows(np.arange(rows, dtype=float), 0.1)
    assert len(validation) == held_out
    np.testing.assert_array_equal(np.sort(np.concatenate([training, validation])), np.arange(rows))


def test_every_class_is_held_out_in_proportion_and_learnt():
    y = RNG.permutation(np.repeat([0.0, 1, 2, 3], [600, 300, 99, 1]))
    training, validation = tables.split_rows(y, 0.2, by_class=True)
    np.testing.assert_allclose(np.bincount(y[validation].astype(int), minlength=4), [120, 60, 20, 0], atol=1)
    assert set(y[training]) == {0, 1, 2, 3}
