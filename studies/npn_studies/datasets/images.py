"""Small grey images in ten classes: handwritten digits, and two other sets to show to a network of digits.

All three are kept in the format of LeCun's idx files: a header with the shape, then one byte for each pixel or label.
"""

from __future__ import annotations

import functools
import gzip
import io
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from torchnpn.datasets import Arrays, Dataset, Original, Source, Split

SIDE = 28  # pixels
FILES = {  # our name of an array -> the file at the source
    "x_train": "train-images-idx3-ubyte.gz",
    "y_train": "train-labels-idx1-ubyte.gz",
    "x_test": "t10k-images-idx3-ubyte.gz",
    "y_test": "t10k-labels-idx1-ubyte.gz",
}
_MOST = {"x_train": 12_000_000, "y_train": 60_000, "x_test": 8_000_000, "y_test": 20_000}  # bytes, compressed
_LARGEST = 60_000 * SIDE**2 + 16  # bytes of an idx file


class ImageSet(NamedTuple):
    """One of the sets: `sha256` names its files by their arrays, with their sums; None where none was recorded."""

    name: str
    title: str
    rows: int
    target: str
    classes: tuple[str, ...]
    licence: str
    origin: str
    base: str  # address of the folder with the idx files
    sha256: Mapping[str, str | None]
    path: str
    digest: str
    note: str


SETS = (
    ImageSet(
        name="mnist",
        title="Handwritten digits",
        rows=70000,
        target="digit",
        classes=tuple("0123456789"),
        licence="CC BY-SA 3.0 (as commonly given)",
        origin="yann.lecun.com/exdb/mnist, from the copy that PyTorch keeps",
        base="https://ossci-datasets.s3.amazonaws.com/mnist",
        sha256={
            "x_train": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "y_train": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "x_test": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "y_test": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
        path="mnist/mnist.npz",
        digest="8fc8fc4f0343f34ece1fcfdfb65f0801fac48030ce7c70e62bbb62f64ee2e65b",
        note="The split has 60,000 images to train on and 10,000 to test on. Where validation images are needed, the "
        "last 10,000 to train on are the usual choice.",
    ),
    ImageSet(
        name="fashion-mnist",
        title="Pieces of clothing (test images)",
        rows=10000,
        target="clothing",
        classes=(
            "T-shirt/top",
            "trouser",
            "pullover",
            "dress",
            "coat",
            "sandal",
            "shirt",
            "sneaker",
            "bag",
            "ankle boot",
        ),
        licence="MIT",
        origin="github.com/zalandoresearch/fashion-mnist",
        base="https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/"
        "b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion",
        sha256={
            "x_test": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "y_test": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
        path="fashion_mnist/fashion_mnist_test.npz",
        digest="c686fd50d239d449197cef97b569bfbc6adcb31aa64a7b9be8a46af908cedc87",
        note="The test images of Zalando's set alone: they show whether a network of digits knows what is no digit.",
    ),
    ImageSet(
        name="notmnist",
        title="Letters A to J in many fonts (test images)",
        rows=10000,
        target="letter",
        classes=tuple("ABCDEFGHIJ"),
        licence="MIT (repository)",
        origin="github.com/davidflanagan/notMNIST-to-MNIST",
        base="https://raw.githubusercontent.com/davidflanagan/notMNIST-to-MNIST/17823f4d4a3acd8317c07866702d2eb2ac79c7a0",
        sha256={"x_test": None, "y_test": None},
        path="notmnist/notmnist_test.npz",
        digest="0b2ea55234d5ce63ae0ec8ceb31554efa1b01b9f634177a96667d65e19f70d99",
        note="A sample of Bulatov's letters: they show whether a network of digits knows what is no digit. Some labels "
        "are wrong.",
    ),
)


def source(images: ImageSet) -> Source:
    """The record of a set whose originals are idx files."""
    return Source(
        name=images.name,
        title=images.title,
        rows=images.rows,
        columns=SIDE * SIDE,
        task="classification",
        licence=images.licence,
        origin=images.origin,
        path=images.path,
        digest=images.digest,
        read=functools.partial(read, images),
        originals=tuple(
            Original(name, f"{images.base}/{FILES[name]}", sha256, _MOST[name])
            for name, sha256 in images.sha256.items()
        ),
        convert=convert,
    )


def read(images: ImageSet, arrays: Arrays) -> Dataset:
    """The data set of the arrays: rows to train on first, if there are any, then those to test on."""
    parts = [part for part in ("train", "test") if f"x_{part}" in images.sha256]
    pixels = np.concatenate([arrays[f"x_{part}"] for part in parts])
    if pixels.dtype != np.uint8:
        raise ValueError(f"pixels should be whole numbers from 0 to 255 of type uint8, got {pixels.dtype}")
    X = pixels.reshape(len(pixels), -1).astype(np.float32)
    X /= 255
    y = np.concatenate([arrays[f"y_{part}"] for part in parts]).astype(np.int64)
    row = np.arange(len(y))
    first_test = len(y) - len(arrays["y_test"])
    return Dataset(
        name=images.name,
        X=X,
        y=y,
        feature_names=tuple(f"pixel_{down}_{across}" for down in range(SIDE) for across in range(SIDE)),
        targets={images.target: y},
        categories={images.target: images.classes},
        splits=(Split(row[:first_test], row[first_test:]),),
        description=f"{images.title}: {SIDE} by {SIDE} pixels from 0 to 1, row by row. {images.note}",
    )


def convert(originals: Mapping[str, bytes]) -> Arrays:
    """The arrays of compressed idx files."""
    return {name: _idx(content) for name, content in originals.items()}


def _idx(content: bytes) -> NDArray[np.uint8]:
    """The array of an idx file: two zeros, 8 for bytes, the number of sizes, the sizes as big-endian words, values."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            plain = file.read(_LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:  # ways of damaged gzip files
        raise ValueError(f"an idx file cannot be unpacked ({error})") from error
    if len(plain) > _LARGEST:
        raise ValueError(f"an idx file should have at most {_LARGEST} bytes, got more")
    if plain[:3] != b"\0\0\x08":
        raise ValueError(f"an idx file of bytes begins with 00 00 08, not with {plain[:3].hex(' ') or 'nothing'}")
    dimensions = plain[3]
    shape = np.frombuffer(plain, ">u4", count=dimensions, offset=4)
    return np.frombuffer(plain, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


SOURCES = tuple(source(images) for images in SETS)
