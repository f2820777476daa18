"""Data sets: found, fetched whole or not at all, and the published values."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import socket
from pathlib import Path

import numpy as np
import pytest
from support.served import ARRAYS, TEXTS, TINY, Server, files

from torchnpn import datasets
from torchnpn.datasets import catalogue, store, uci

DATA = os.environ.get("TORCHNPN_DATA")  # read before the fixtures below take it away
FILES = ["boston/boston_housing.npz", *(one.path for one in catalogue.SOURCES.values() if one.digest)]
COMPLETE = DATA and all((Path(DATA) / file).is_file() for file in FILES)
needs_data = pytest.mark.skipif(not COMPLETE, reason="TORCHNPN_DATA is not set to a folder with all data sets")


@pytest.fixture
def with_data(monkeypatch):
    monkeypatch.setenv("TORCHNPN_DATA", str(DATA))


# Fetching


def test_fetch_downloads_converts_and_keeps(server, cache):
    path = datasets.fetch("tiny")
    assert files(cache) == [path] == [cache / "uci_regression" / "tiny.npz"]
    with np.load(path) as stored:
        assert set(stored) == set(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(stored[name], array, strict=True)
    requests = len(server.asked)
    assert requests == len(TEXTS)
    assert datasets.fetch("tiny") == path
    assert len(server.asked) == requests  # not asked again


def test_load_gives_the_table(server):
    table = datasets.load("tiny")
    np.testing.assert_array_equal(table.X, ARRAYS["X"], strict=True)
    np.testing.assert_array_equal(table.y, ARRAYS["y"], strict=True)
    assert table.feature_names == ("a", "b")
    assert table.targets.keys() == {"t"} and table.targets["t"] is table.y
    assert [split.train.tolist() for split in table.splits] == [[4, 0, 2], [0, 1, 3]]
    assert [split.test.tolist() for split in table.splits] == [[1, 3], [2, 4]]


def test_progress_counts_the_bytes_of_all_files(server):
    seen = []
    datasets.fetch("tiny", lambda received, total: seen.append((received, total)))
    received = [number for number, _ in seen]
    assert received == sorted(received)
    assert received[-1] == sum(map(len, TEXTS.values()))
    assert {total for _, total in seen} == {None}


def test_progress_of_one_file_knows_its_total(server, monkeypatch):
    server.bodies["/tiny/data/data.txt"] = body = b"7 " * 100_000  # more than one chunk
    source = uci.source(TINY, server.base)
    original = source.originals[0]._replace(sha256=hashlib.sha256(body).hexdigest())
    alone = dataclasses.replace(source, originals=(original,), convert=lambda originals: ARRAYS)
    monkeypatch.setitem(catalogue.SOURCES, "tiny", alone)
    seen = []
    datasets.fetch("tiny", lambda received, total: seen.append((received, total)))
    assert len(seen) > 1
    assert seen[-1] == (len(body), len(body))


def truncated(server):
    server.lengths["/tiny/data/data.txt"] = len(TEXTS["data"]) + 10


def other_bytes(server):
    server.bodies["/tiny/data/data.txt"] = TEXTS["data"].replace(b"0.2", b"0.3")


def missing(server):
    del server.bodies["/tiny/data/index_test_1.txt"]


def other_split(server):
    server.bodies["/tiny/data/index_test_1.txt"] = b"4\n2\n"


def web_page(server):
    server.bodies["/tiny/data/index_test_1.txt"] = b"<html>log in first</html>\n"


def row_too_far(server):
    server.bodies["/tiny/data/index_features.txt"] = b"0\n9\n"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (truncated, r"broke off: expected 67 bytes, got 57.*Without a network.*tiny\.npz.*TORCHNPN_DATA"),
        (other_bytes, "sha256 is [0-9a-f]{64}, not [0-9a-f]{64}. Nothing was kept"),
        (missing, r"Could not get .*index_test_1.txt .*404.*tiny\.npz.*TORCHNPN_DATA"),
        (other_split, "have changed at github.com"),
        (web_page, "are not as expected: could not convert"),
        (row_too_far, "are not as expected: index 9 is out of bounds"),
    ],
)
def test_a_bad_download_is_refused_and_leaves_nothing(server, cache, spoil, words):
    spoil(server)
    with pytest.raises(datasets.DownloadError, match=words):
        datasets.fetch("tiny")
    assert files(cache) == []


def test_offline_says_what_to_do(cache, monkeypatch):
    with socket.socket() as closed:  # a port that nobody listens at
        closed.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setitem(catalogue.SOURCES, "tiny", uci.source(TINY, base))
        with pytest.raises(datasets.DownloadError) as caught:
            datasets.load("tiny")
    for words in (f"{base}/tiny/data/data.txt", str(cache / "uci_regression" / "tiny.npz"), "TORCHNPN_DATA"):
        assert words in str(caught.value)
    assert files(cache) == []


def test_an_interrupted_conversion_leaves_nothing(server, cache, monkeypatch):
    def convert(originals):
        raise KeyboardInterrupt

    source = dataclasses.replace(uci.source(TINY, server.base), convert=convert)
    monkeypatch.setitem(catalogue.SOURCES, "tiny", source)
    with pytest.raises(KeyboardInterrupt):
        datasets.fetch("tiny")
    assert files(cache) == []


@pytest.mark.parametrize(
    ("problem", "seen"), [(KeyboardInterrupt(), KeyboardInterrupt), (OSError(28, "No space left"), OSError)]
)
def test_an_interrupted_write_leaves_what_was_there(cache, monkeypatch, problem, seen):
    path = cache / "a" / "b.npz"
    store.write(path, {"old": np.arange(3)})

    def half(file, **arrays):
        file.write(b"PK half a file")
        raise problem

    monkeypatch.setattr(np, "savez_compressed", half)
    with pytest.raises(seen):
        store.write(path, {"new": np.arange(3)})
    assert files(cache) == [path]
    assert list(store.read(path)) == ["old"]


def test_an_unwritable_cache_is_told_before_the_download(server, tmp_path, monkeypatch):
    blocked = tmp_path / "a file, no folder"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.raises(OSError, match=r"Cannot write .*tiny\.npz.*Set XDG_CACHE_HOME"):
        datasets.fetch("tiny")
    assert server.asked == []


# Finding


def test_data_folder_comes_before_the_cache(cache, tmp_path, monkeypatch):
    relative = "uci_regression/tiny.npz"
    monkeypatch.setenv("TORCHNPN_DATA", str(tmp_path / "data"))
    assert store.locate(relative) == cache / relative
    store.write(cache / relative, ARRAYS)
    assert store.locate(relative) == cache / relative
    store.write(tmp_path / "data" / relative, ARRAYS)
    assert store.locate(relative) == tmp_path / "data" / relative


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {}, "~/.cache/torchnpn"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/torchnpn"),
        ("darwin", {}, "~/Library/Caches/torchnpn"),
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "/x/torchnpn"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/torchnpn"),
        ("win32", {}, "~/.cache/torchnpn"),
    ],
)
def test_cache_is_where_the_platform_wants_it(platform, variables, folder, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", platform)
    assert store.cache() == Path(folder).expanduser()


def test_an_unknown_name_names_the_others():
    with pytest.raises(ValueError, match=r"no data set 'concret'. Did you mean 'concrete'\?"):
        datasets.load("concret")
    with pytest.raises(ValueError, match=r"no data set 'iris'. There are: boston"):
        datasets.fetch("iris")
    with pytest.raises(ValueError, match="no data set 'iris'"):
        datasets.verify("iris")


def test_what_cannot_be_converted_is_asked_for(cache):
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load("motor-insurance")
    path = str(cache / "ausprivauto" / "ausprivauto0405.npz")
    for words in ("CASdatasets", "ausprivauto0405.rda", path, "TORCHNPN_DATA"):
        assert words in str(caught.value)


def test_available_tells_what_is_present(server, cache):
    before = {info.name: info for info in datasets.available() if info.name != "toy"}  # which needs no file
    assert before.keys() >= {"boston", "yacht", "motor-insurance", "tiny"}
    assert not any(info.present for info in before.values())
    assert all(info.path.is_relative_to(cache) for info in before.values())
    datasets.fetch("tiny")
    present = [info for info in datasets.available() if info.present and info.name != "toy"]
    assert [(info.name, info.rows, info.columns, info.path.is_file()) for info in present] == [("tiny", 5, 2, True)]


# The published values, where the data are

PUBLISHED = [  # rows, columns, splits, rows to train on, mean and standard deviation of the target
    ("boston", 506, 13, 20, 455, 22.5328, 9.1880),
    ("concrete", 1030, 8, 20, 927, 35.8180, 16.6976),
    ("energy", 768, 8, 20, 691, 22.3072, 10.0836),
    ("kin8nm", 8192, 8, 20, 7373, 0.7143, 0.2636),
    ("naval", 11934, 16, 20, 10741, 0.9750, 0.0147),
    ("power", 9568, 4, 20, 8611, 454.3650, 17.0661),
    ("protein", 45730, 9, 5, 41157, 7.7485, 6.1182),
    ("wine", 1599, 11, 20, 1439, 5.6360, 0.8073),
    ("yacht", 308, 6, 20, 277, 10.4954, 15.1359),
]


@needs_data
@pytest.mark.parametrize(("name", "rows", "columns", "splits", "train", "mean", "std"), PUBLISHED)
def test_uci_tables_have_their_published_values(with_data, name, rows, columns, splits, train, mean, std):
    table = datasets.load(name)
    assert (table.X.shape, len(table.feature_names), len(table.splits)) == ((rows, columns), columns, splits)
    assert np.isfinite(table.X).all()
    np.testing.assert_allclose((table.y.mean(), table.y.std()), (mean, std), atol=5.1e-5)
    for split in table.splits:
        assert len(split.train) == train
        np.testing.assert_array_equal(np.sort(np.concatenate(split)), np.arange(rows))


@needs_data
def test_motor_insurance_has_its_published_values(with_data):
    table = datasets.load("motor-insurance")
    counts, amounts = table.targets["counts"], table.targets["amounts"]
    assert np.bincount(counts.astype(int)).tolist() == [63232, 4333, 271, 18, 2]
    assert ((counts > 0) == (amounts > 0)).all()
    assert (amounts > 0).sum() == 4624 and round(amounts[amounts > 0].mean(), 2) == 2014.40
    driver_age = table.X[:, table.feature_names.index("driver_age")]  # de Jong and Heller's groups 1 to 6
    assert np.bincount(driver_age.astype(int)).tolist() == [5742, 12875, 15767, 16189, 10736, 6547]


@needs_data
def test_the_data_folder_is_as_recorded(with_data):
    assert {name for name, status in datasets.verify() if status != "ok"} <= {"citeulike-a"}


@needs_data
def test_boston_columns_are_named_as_in_the_other_copy(with_data):
    with np.load(Path(str(DATA)) / "boston" / "boston_housing.npz") as copy:
        assert list(datasets.load("boston").feature_names) == [name.decode() for name in copy["feature_names"]]
        np.testing.assert_array_equal(datasets.load("boston").X, copy["X"])


@needs_data
def test_the_original_of_wine_becomes_the_recorded_file(cache, monkeypatch):
    """The text is rebuilt byte for byte (its recorded sha256 says so), and goes all the way from server to cache."""
    with np.load(Path(str(DATA)) / "uci_regression" / "wine-quality-red.npz") as stored:
        arrays = dict(stored)
    rows = np.column_stack([arrays["X"], arrays["y"]]).tolist()
    texts = {"data": "".join(" ".join(f"{value:.15g}" for value in row) + "\n" for row in rows).encode()}
    for part in ("train", "test"):
        for split, chosen in enumerate(arrays[f"{part}_idx"]):
            texts[f"index_{part}_{split}"] = "".join(f"{row:.18e}\n" for row in chosen.tolist()).encode()
    texts["index_features"] = b"".join(b"%d\n" % column for column in range(11))
    texts |= {"index_target": b"11\n", "n_hidden": b"50\n", "n_epochs": b"40\n"}
    table = next(table for table in uci.TABLES if table.name == "wine")
    with Server(texts, table.folder) as server:
        monkeypatch.setitem(catalogue.SOURCES, "wine", uci.source(table, server.base))
        assert datasets.fetch("wine").is_relative_to(cache)
    assert datasets.verify("wine") == [("wine", "ok")]
