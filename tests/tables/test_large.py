"""A folder that is read piece by piece in each pass, as one that is larger than memory."""

from __future__ import annotations

import dataclasses
import gzip

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import torch
from support.commands import done, refused

import torchnpn as npn
from torchnpn import table_files, tables
from torchnpn.tables import stream as streams
from torchnpn.training import Processes
from torchnpn.training.data import as_batches

ROWS = 3_000


def table(rows=ROWS):
    rng = np.random.default_rng(0)
    x, kind = rng.normal(size=(rows, 2)), rng.choice(["car", "van"], rows)
    y = x[:, 0] * 2 + (kind == "van") + 0.1 * rng.normal(size=rows)
    return pd.DataFrame(
        {
            "number": np.arange(rows),
            "a": np.where(rng.random(rows) < 0.1, np.nan, x[:, 0]),
            "b": x[:, 1],
            "kind": kind,
            "y": np.where(rng.random(rows) < 0.05, np.nan, y),
            "class": np.where(y > 1, "high", "low"),
            "count": rng.poisson(np.exp(x[:, 0] / 2)),
        }
    )


def written(folder, ending="parquet", files=5):
    """The table in files of different sizes, each with several row groups."""
    folder.mkdir()
    rows, ends = table(), np.linspace(0, np.sqrt(ROWS), files + 1)[1:-1] ** 2
    for k, part in enumerate(np.split(np.arange(ROWS), ends.astype(int))):
        if ending == "csv":
            rows.iloc[part].to_csv(folder / f"part-{k}.csv", index=False)
        else:
            arrow = pyarrow.Table.from_pandas(rows.iloc[part], preserve_index=False)
            pyarrow.parquet.write_table(arrow, folder / f"part-{k}.parquet", row_group_size=170)
    return folder


@pytest.fixture(scope="module", params=["parquet", "csv"])
def folder(request, tmp_path_factory):
    return written(tmp_path_factory.mktemp("large") / "rows", request.param)


def raw_stream(folder):
    """All rows to learn from, with their numbers as the only input."""
    read = tables.read_large(table_files.open_folder(folder), tables.Question("y", use=["number"]))

    def as_numbers(X, y):
        return npn.Moments(torch.from_numpy(X[:, :1].copy())), y

    return read, read.stream.learnable(as_numbers)


def numbers_seen(stream, batch_size, seed=0, processes=1):
    """Numbers of the rows of each batch, as a sorted tuple."""
    every = [list(stream.one_pass(batch_size, seed, Processes(rank, processes))) for rank in range(processes)]
    steps = max(map(len, every))
    return [
        np.sort(np.concatenate([batches[t][0].mean[:, 0].numpy() for batches in every if t < len(batches)]))
        for t in range(steps)
    ]


def test_an_epoch_has_each_row_once_and_none_that_is_held_out(folder):
    read, stream = raw_stream(folder)
    batches = numbers_seen(stream, 64)
    seen = np.concatenate(batches)
    origin = read.data.schema.columns[0].origin
    known = np.flatnonzero(table()["y"].notna())
    held_out = read.held_out.X[:, 0] + origin
    assert sorted(seen + origin) == sorted(set(known) - set(held_out))
    assert len(seen) == stream.count
    assert 0.05 < len(held_out) / len(known) < 0.15
    assert set(read.some.X[:, 0] + origin) <= set(seen + origin)


def test_batches_are_the_same_for_any_number_of_processes(folder):
    _, stream = raw_stream(folder)
    alone = numbers_seen(stream, 64)
    for processes in (2, 4):
        for one, several in zip(alone, numbers_seen(stream, 64, processes=processes), strict=True):
            np.testing.assert_array_equal(one, several)
    assert max(map(len, alone)) <= 70
    for processes in (1, 2, 3, 16):
        assert [*map(len, numbers_seen(stream, 64, processes=processes))] == stream.sizes(64, processes)
    assert len(alone) <= 1.15 * stream.count / 64  # lanes end together, nearly


@pytest.mark.parametrize("processes", [1, 2, 16])
def test_epochs_of_a_pass_go_on_where_the_one_before_stopped(folder, monkeypatch, processes):
    """Also where a training is taken up in the midst of a pass, and by processes that have no file of their own."""
    monkeypatch.setattr(streams, "_PART", 700)
    _, stream = raw_stream(folder)
    assert stream.parts == 4

    def epochs(numbers, rank):
        source = as_batches(stream, torch.device("cpu"))
        dealt = lambda number: source.own_batches(64, number, Processes(rank, processes), number)
        return [[(batch.x.mean[:, 0], batch.weight, total) for batch, total in dealt(number)] for number in numbers]

    every = [epochs(range(8), rank) for rank in range(processes)]
    again = epochs([5, 6, 7], processes - 1)
    for one, other in zip(every[-1][5:], again, strict=True):
        assert all(torch.equal(a[0], b[0]) for a, b in zip(one, other, strict=True))
    for first in (0, 4):  # each pass has each row once
        steps = [step for rank in every for epoch in rank[first : first + 4] for step in epoch]
        seen = torch.cat([numbers for numbers, weight, _ in steps if weight is None])
        assert len(seen) == len(seen.unique()) == stream.count
        assert sum(total for epoch in every[0][first : first + 4] for *_, total in epoch) == stream.count


def test_files_that_change_are_told(folder):
    _, stream = raw_stream(folder)
    (piece, rows), *others = stream.pieces
    changed = dataclasses.replace(stream, pieces=(streams.PieceRows(piece, rows + 1), *others))
    with pytest.raises(table_files.TableError, match="changed while it was read"):
        list(changed.one_pass(64, 0, Processes()))


def test_epochs_have_other_orders(folder, monkeypatch):
    monkeypatch.setattr(streams, "_WINDOW", 1_000)
    _, stream = raw_stream(folder)
    first, again, other = (np.concatenate(numbers_seen(stream, 64, seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.9
    np.testing.assert_array_equal(np.sort(first), np.sort(other))


@pytest.mark.parametrize("target", ["y", "class", "count"])
def test_a_folder_is_learnt_as_the_same_rows_in_memory_are(folder, target):
    rest = [name for name in ("y", "class", "count", "number") if name != target]
    settings = {"hidden": (8,), "max_epochs": 12, "batch_size": 64, "random_state": 0}
    question = tables.Question(target, drop=rest)
    large = tables.read_large(table_files.open_folder(folder), question)
    estimator, about = tables.fit_large(large, settings)
    data, rows = tables.read_data(table_files.memory_table(table()), question)
    whole, beside = tables.fit_estimator(data.schema, data.target, rows, settings)
    assert (about.family, large.data.schema.names) == (beside.family, data.schema.names)
    ours, theirs = (
        tables.figures(tables.outcome(one, which, *large.held_out), tables.marginal_outcome(which, large.held_out.y))
        for one, which in ((estimator, about), (whole, beside))
    )
    ours, theirs = map(tables.nll_of, (ours, theirs))
    assert ours.model == pytest.approx(theirs.model, abs=0.1)
    assert ours.model < ours.marginal


def test_the_command_learns_from_a_folder(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MOST_ROWS", 1_000)
    drop = [word for name in ("class", "count") for word in ("--drop", name)]
    done("fit", folder, "-t", "y", *drop, "-o", tmp_path / "m.npn", "--epochs", 3, "--hidden", "8", "--no-report")
    assert npn.load(tmp_path / "m.npn").record.rows > 2_000
    assert [path.name for path in tmp_path.iterdir()] == ["m.npn"]  # the checkpoint is gone
    done("evaluate", tmp_path / "m.npn", folder)


def test_errors_of_the_reading_thread_are_raised_where_batches_are_taken():
    def broken():
        yield 1
        raise table_files.TableError("part-7 is not a whole Parquet file.")

    taken = streams.prefetched(broken(), 2)
    assert next(taken) == 1
    with pytest.raises(table_files.TableError, match="part-7"):
        next(taken)


def test_a_stream_knows_other_files(folder):
    _, stream = raw_stream(folder)
    assert stream.identity == raw_stream(folder)[1].identity
    assert stream.identity != dataclasses.replace(stream, seed=1).identity


def test_addresses_are_read_as_folders_are(tmp_path):
    """s3:// and others go through fsspec; memory:// is a store that needs no network."""
    store = pytest.importorskip("upath", reason="universal-pathlib is not installed").UPath("memory://store/rows")
    store.mkdir(parents=True)
    for path in written(tmp_path / "here").iterdir():
        (store / path.name).write_bytes(path.read_bytes())
    (store / "more.csv.gz").write_bytes(gzip.compress(table(50).to_csv(index=False).encode()))
    drop = [word for name in ("class", "count") for word in ("--drop", name)]
    done("fit", store, "-t", "y", *drop, "-o", tmp_path / "m.npn", "--epochs", 1, "--no-report")
    assert "3,050" in done("predict", tmp_path / "m.npn", store, "-o", tmp_path / "out", "--workers", 1)
    assert len(list((tmp_path / "out").iterdir())) == 6
    with pytest.raises(table_files.TableError, match="There is nothing at memory://store/other"):
        table_files.open_table(table_files.place("memory://store/other.csv"))
    assert "nosuch://rows cannot be read: Unsupported filesystem" in refused("fit", "nosuch://rows", "-t", "y")
