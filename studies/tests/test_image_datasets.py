"""Images: fetched, read, and the published values."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from npn_studies.datasets import images
from support.served import empty_cache, files, served
from typer.testing import CliRunner

from torchnpn import datasets
from torchnpn.cli import app as cli
from torchnpn.datasets import catalogue, store

DATA = os.environ.get("TORCHNPN_DATA")  # read before the fixture below takes it away
NAMES = ("mnist", "fashion-mnist", "notmnist")


def idx(array: np.ndarray) -> bytes:
    """A file as LeCun describes it: zero, zero, 8 for unsigned bytes, the number of sizes, the sizes, the bytes."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def tiny_arrays() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)

    def draw(below: int, *shape: int) -> np.ndarray:
        return generator.integers(below, size=shape).astype(np.uint8)

    return {
        "x_train": draw(256, 5, 28, 28),
        "y_train": draw(10, 5),
        "x_test": draw(256, 3, 28, 28),
        "y_test": draw(10, 3),
    }


ARRAYS = tiny_arrays()


def zipped(content: bytes) -> bytes:
    """Without the time, or two workers would collect different tests."""
    return gzip.compress(content, mtime=0)


FILES = {images.FILES[name]: zipped(idx(array)) for name, array in ARRAYS.items()}
TINY = images.SETS[0]._replace(
    name="tiny", rows=8, sha256=dict.fromkeys(ARRAYS), path="tiny/tiny.npz", digest=store.digest(ARRAYS)
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    return empty_cache(tmp_path, monkeypatch)


@pytest.fixture
def origin(tmp_path, monkeypatch):
    """A folder with the idx files of a set called "tiny", and a server of it."""
    folder = tmp_path / "origin"
    with served(folder, FILES) as base:
        monkeypatch.setitem(catalogue.SOURCES, "tiny", images.source(TINY._replace(base=base)))
        yield folder


# Images


def test_idx_files_become_the_stored_file(origin, cache):
    path = datasets.fetch("tiny")
    assert files(cache) == [path] == [cache / "tiny" / "tiny.npz"]
    with np.load(path) as stored:
        assert set(stored) == set(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(stored[name], array, strict=True)
    assert datasets.verify("tiny") == [("tiny", "ok")]


def test_load_scales_and_splits(origin):
    loaded = datasets.load("tiny")
    train, test = loaded.splits[0]
    assert (train.tolist(), test.tolist()) == ([0, 1, 2, 3, 4], [5, 6, 7])
    assert (loaded.X.dtype, loaded.y.dtype) == (np.float32, np.int64)
    for rows, part in ((train, "train"), (test, "test")):
        np.testing.assert_array_equal(loaded.y[rows], ARRAYS[f"y_{part}"])
        expected = ARRAYS[f"x_{part}"].reshape(len(rows), 784) / 255.0
        np.testing.assert_allclose(loaded.X[rows], expected, rtol=1e-6)
    assert loaded.X.min() == 0 and loaded.X.max() == 1
    place = loaded.feature_names.index("pixel_3_17")
    np.testing.assert_allclose(loaded.X[train, place], ARRAYS["x_train"][:, 3, 17] / 255.0, rtol=1e-6)
    assert len(set(loaded.feature_names)) == 784
    assert loaded.targets["digit"] is loaded.y and loaded.categories["digit"][7] == "7"


def test_test_images_alone_have_nothing_to_train_on():
    alone = {name: array for name, array in ARRAYS.items() if name.endswith("test")}
    loaded = images.read(TINY._replace(sha256=dict.fromkeys(alone)), alone)
    assert [part.tolist() for part in loaded.splits[0]] == [[], [0, 1, 2]]
    np.testing.assert_array_equal(loaded.y, ARRAYS["y_test"])


PLAIN = idx(ARRAYS["y_test"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (PLAIN, "cannot be unpacked .*gzip"),
        (zipped(PLAIN)[:-9], "cannot be unpacked"),
        (zipped(PLAIN)[:10] + b"\xff" * 9, "cannot be unpacked"),
        (zipped(b"<html>log in first</html>"), "begins with 00 00 08, not with 3c 68 74"),
        (zipped(b""), "not with nothing"),
        (zipped(PLAIN[:3]), "out of range"),
        (zipped(PLAIN[:6]), "buffer"),
        (zipped(PLAIN[:-1]), "reshape"),
        (zipped(PLAIN + b"\0"), "reshape"),
    ],
)
def test_a_bad_original_is_refused_and_leaves_nothing(origin, cache, content, words):
    (origin / "t10k-labels-idx1-ubyte.gz").write_bytes(content)
    with pytest.raises(datasets.DownloadError, match=f"are not as expected: .*{words}"):
        datasets.fetch("tiny")
    assert files(cache) == []


def test_other_labels_are_refused(origin, cache):
    (origin / "t10k-labels-idx1-ubyte.gz").write_bytes(zipped(idx(ARRAYS["y_test"][::-1])))
    with pytest.raises(datasets.DownloadError, match=r"have changed at yann\.lecun\.com"):
        datasets.fetch("tiny")
    assert files(cache) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x_train": ARRAYS["x_train"] / 255}, "type uint8, got float64"),
        ({"x_train": ARRAYS["x_train"][1:]}, r"8 rows of 784 features.*X of shape \(7, 784\)"),
        ({"y_train": ARRAYS["y_train"][1:]}, r"y of shape \(7,\)"),
        ({"x_train": ARRAYS["x_train"][:, 1:]}, "not the file of 'tiny'"),
    ],
)
def test_another_file_is_refused(origin, cache, change, words):
    store.write(cache / "tiny" / "tiny.npz", ARRAYS | change)
    with pytest.raises(ValueError, match=words) as caught:
        datasets.load("tiny")
    assert "fetch it anew" in str(caught.value)


def test_a_file_that_expands_for_ever():
    content = gzip.compress(b"\0\0\x08\x01" + bytes(10**8))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="should have at most"):
            images.convert({"x_test": content})
        assert tracemalloc.get_traced_memory()[1] < 3 * images._LARGEST
    finally:
        tracemalloc.stop()


def test_sources_are_fixed_and_checked():
    for one in images.SETS:
        for original in catalogue.SOURCES[one.name].originals:
            assert original.url.startswith("https://")
            if "raw.githubusercontent.com" in original.url:  # a commit, not a branch
                assert any(len(part) == 40 for part in original.url.split("/"))
            else:
                assert original.sha256 is not None


# The command


def test_the_command_shows_and_checks_them():
    listed = CliRunner().invoke(cli.app, ["data", "list"])
    checked = CliRunner().invoke(cli.app, ["data", "verify"])
    assert (listed.exit_code, checked.exit_code) == (0, 0)
    lines = {line.split()[0]: line for line in listed.output.splitlines() if line.split()}
    verdicts = {line.split()[0]: line.split()[1] for line in checked.output.splitlines() if len(line.split()) == 2}
    for name in NAMES:
        assert "784" in lines[name] and "classification" in lines[name]
        assert verdicts[name] == "absent"


# The published values, where the data are

COUNTS = {  # images of each class, to train on and to test on
    "mnist": (
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ),
    "fashion-mnist": ([0] * 10, [1000] * 10),
    "notmnist": ([0] * 10, [1000] * 10),
}
MEAN_PIXEL = {"mnist": 33.7912, "fashion-mnist": 73.1466, "notmnist": 108.7891}  # of the test images, from 0 to 255
ORIGINALS = {  # sha256 of the unpacked idx files at their source
    ("mnist", "train"): (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    ("mnist", "test"): (
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    ("fashion-mnist", "test"): (
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}


@pytest.mark.parametrize("name", [pytest.param("mnist", marks=pytest.mark.slow), "fashion-mnist", "notmnist"])
def test_images_have_their_published_values(name, monkeypatch):
    if DATA is None or not (Path(DATA) / catalogue.SOURCES[name].path).is_file():
        pytest.skip(f"TORCHNPN_DATA is not set to a folder with {name}")
    monkeypatch.setenv("TORCHNPN_DATA", DATA)
    assert datasets.verify(name) == [(name, "ok")]
    loaded = datasets.load(name)
    assert loaded.X.dtype == np.float32 and loaded.X.min() == 0 and loaded.X.max() == 1
    split = loaded.splits[0]
    np.testing.assert_array_equal(np.concatenate(split), np.arange(len(loaded.y)))
    assert tuple(np.bincount(loaded.y[rows], minlength=10).tolist() for rows in split) == COUNTS[name]
    assert loaded.X[split.test].mean(dtype=np.float64) * 255 == pytest.approx(MEAN_PIXEL[name], abs=6e-5)
    for part in ("train", "test"):
        if (name, part) in ORIGINALS:  # every pixel and label, in the original order
            rows = getattr(split, part)
            pixels = np.rint(loaded.X[rows] * 255).astype(np.uint8).reshape(-1, 28, 28)
            found = (hashlib.sha256(idx(array)).hexdigest() for array in (pixels, loaded.y[rows].astype(np.uint8)))
            assert tuple(found) == ORIGINALS[name, part]
