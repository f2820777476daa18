"""`npn predict` on a folder: each file whole or absent, those that cannot be used by name, and frames in Python."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from support.commands import done, filled, frame, refused

import torchnpn as npn
from torchnpn import table_files

MODELS = ("number", "class")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return filled(tmp_path_factory.mktemp("models"))


@pytest.fixture
def shards(tmp_path):
    """Three files of 40 rows."""
    folder = tmp_path / "new"
    folder.mkdir()
    rows = frame(120)
    for k in range(3):
        rows[40 * k : 40 * (k + 1)].to_parquet(folder / f"part-{k}.parquet")
    (folder / "_SUCCESS").touch()
    return folder


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("library", ["pandas", "arrow", "batch"])
def test_frames_come_back_in_kind(models, kind, library):
    model, rows = npn.load(models / f"{kind}.npn"), frame(30).drop(columns="y").set_index(np.arange(5, 35))
    given = {"pandas": rows, "arrow": pa.table(rows), "batch": pa.RecordBatch.from_pandas(rows)}[library]
    found = model.predict_frame(given, keep=["id"])
    assert type(found) is type(given)
    if library == "pandas":
        assert (found.index == rows.index).all()
    found = found if library == "pandas" else found.to_pandas()
    assert list(found["id"]) == list(rows["id"])
    for name, values in model.predict(rows).items():
        np.testing.assert_array_equal(found[name], values)
    assert set(model.predict_frame(given, keep=[]).to_pandas() if library != "pandas" else found) >= set(
        model.predict(rows)
    )


@pytest.mark.parametrize("kind", MODELS)
def test_a_part_without_rows_has_the_same_columns(models, kind):
    model, rows = npn.load(models / f"{kind}.npn"), pa.table(frame(10))
    some, none = model.predict_frame(rows, keep=[]), model.predict_frame(rows.slice(0, 0), keep=[])
    assert none.num_rows == 0 and none.schema == some.schema


def test_a_column_cannot_be_there_twice(models):
    model = npn.load(models / "number.npn")
    with pytest.raises(table_files.TableError, match="already has a column 'y_mean'"):
        model.predict_frame(frame(5).assign(y_mean=1.0))
    with pytest.raises(table_files.TableError, match="no column 'idd' to keep"):
        model.predict_frame(frame(5), keep=["idd"])


def test_a_folder_is_predicted_file_by_file(models, shards, tmp_path):
    out = tmp_path / "out"
    command = ["predict", models / "number.npn", shards, "-o", out, "--workers", 1]
    assert "120 rows in 3 files" in done(*command)
    assert sorted(path.name for path in out.iterdir()) == [f"part-{k}.parquet" for k in range(3)]
    expected = npn.load(models / "number.npn").predict(frame(120))
    found = pa.parquet.read_table(out).to_pandas()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
    (out / "part-1.parquet").unlink()
    before = (out / "part-0.parquet").stat().st_mtime_ns
    text = done(*command)
    assert "2 of 3 files are there already" in text and "40 rows in 1 files" in text
    assert (out / "part-0.parquet").stat().st_mtime_ns == before
    assert "holds something else than the predictions of this model" in refused(*command, "--level", 0.5)


@pytest.mark.slow
def test_several_processes_predict_a_folder(models, shards, tmp_path):
    done("predict", models / "class.npn", shards, "-o", tmp_path / "out", "--workers", 2)
    found = pa.parquet.read_table(tmp_path / "out").to_pandas()
    assert list(found["size_predicted"]) == list(npn.load(models / "class.npn").predict(frame(120))["size_predicted"])


@pytest.fixture
def spoilt(shards):
    """Two of the files are good; the others go by what is wrong with them."""
    whole = (shards / "part-1.parquet").read_bytes()
    packed = gzip.compress(frame(2000).to_csv(index=False).encode())
    (shards / "part-1.parquet").rename(shards / "truncated.parquet").write_bytes(whole[: len(whole) // 2])
    (shards / "empty.parquet").write_bytes(b"")
    (shards / "truncated.csv.gz").write_bytes(packed[: len(packed) // 2])
    frame(10).rename(columns={"x": "ex"}).to_parquet(shards / "otherwise.parquet")
    frame(10)[:0].to_parquet(shards / "rowless.parquet")
    frame(10).assign(x="much").to_parquet(shards / "words.parquet")
    frame(10).assign(x="much").to_csv(shards / "words.csv", index=False)
    return shards


BAD = {
    "truncated.parquet", "empty.parquet", "truncated.csv.gz", "otherwise.parquet", "rowless.parquet", "words.parquet",
    "words.csv",
}  # fmt: skip


def test_bad_files_are_named(models, spoilt, tmp_path):
    command = ["predict", models / "number.npn", spoilt, "-o", tmp_path / "out", "--workers", 1]
    line = refused(*command)
    assert any(name in line for name in BAD) and "--on-bad skip" in line
    text = done(*command, "--on-bad", "skip")
    assert {name for name in BAD if f"left out: {spoilt / name}: " in text} == BAD
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["part-0.parquet", "part-2.parquet"]


def test_bad_files_of_a_table_are_named(spoilt):
    with pytest.raises(table_files.TableError, match=r"cannot be used: .* So are 6 more files.*--on-bad skip"):
        table_files.open_folder(spoilt)
    table = table_files.open_folder(spoilt, skip_bad=True)
    assert {one.path.name for one in table.bad} == BAD
    assert sum(batch.num_rows for batch in table.batches()) == 80


def test_bad_files_of_a_table_are_left_out_by_every_command(models, spoilt, tmp_path):
    """Of rows to test on, and of rows to learn from."""
    for command in (["evaluate", models / "number.npn", spoilt], ["fit", spoilt, "-t", "y", "-o", tmp_path / "m.npn"]):
        quick = ["--epochs", 1, "--no-report"] if command[0] == "fit" else []
        assert "To go on without: --on-bad skip." in refused(*command, *quick)
        text = done(*command, *quick, "--on-bad", "skip")
        assert {name for name in BAD if f"left out: {spoilt / name}: " in text} == BAD
        assert "80 rows" in text or "of 80." in text
