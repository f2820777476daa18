"""What `load` gives, and what is written down about each data set before there is a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from torchnpn.datasets.download import MOST_BYTES
from torchnpn.datasets.store import Arrays

Vector = NDArray[Any]


class Split(NamedTuple):
    """Row numbers of one published split, in the published order."""

    train: Vector
    test: Vector


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with its targets.

    Attributes:
        name: The name it was loaded by.
        X: Features (rows, columns), float64; float32 for images. A categorical column holds the number of its category.
        y: The first of `targets` (rows,), float64; int64 for classes.
        feature_names: One name for each column of `X`.
        targets: Every target by its name.
        categories: For each categorical column or target, the names of its categories in the order of their numbers.
        splits: Published splits into training and test rows; empty where there are none.
        description: What the rows are, where they come from, and what to know before using them.
    """

    name: str
    X: NDArray[Any]
    y: Vector
    feature_names: tuple[str, ...]
    targets: Mapping[str, Vector]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    splits: tuple[Split, ...] = ()
    description: str = ""

    def check_size(self, rows: int, columns: int) -> None:
        """Refuse a table that is not as large as its source says."""
        if self.X.shape != (rows, columns) or self.y.shape != (rows,):
            raise ValueError(
                f"should hold {rows} rows of {columns} features and a target, got X of shape {self.X.shape} and y of "
                f"shape {self.y.shape}"
            )


class Info(NamedTuple):
    """One line of the list of data sets.

    `path` is where the file is or, when not present, where it would go; of a generated set, the module that makes it.
    """

    name: str
    title: str
    rows: int
    columns: int
    task: str
    licence: str
    source: str
    present: bool
    path: Path


class Original(NamedTuple):
    """A file at its source. Without a `sha256` of its own it is covered by the digest of the converted arrays."""

    name: str
    url: str
    sha256: str | None = None
    most: int = MOST_BYTES  # that it has, or somewhat more: what comes beyond is not even received


@dataclass(frozen=True)
class Source:
    """All that is known of a data set without its file."""

    name: str  # what `load` is asked for
    title: str  # one line for lists
    rows: int
    columns: int  # of `X`
    task: str  # what it is for, in one or two words
    licence: str  # as stated at the source
    origin: str
    path: str  # of the `.npz` file, relative to the data folder
    digest: str  # `store.digest` of the arrays in that file
    read: Callable[[Arrays], Dataset]
    originals: tuple[Original, ...] = ()  # to download; empty where they cannot be converted here
    convert: Callable[[Mapping[str, bytes]], Arrays] | None = None  # from the bytes of originals, by name
    by_hand: str = ""  # what to do where there is nothing to download
