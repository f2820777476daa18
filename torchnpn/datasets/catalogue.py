"""The table of all data sets, and what one can do with a name: load, fetch, verify, list."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

from torchnpn._text import did_you_mean
from torchnpn.datasets import insurance, store, toy, uci
from torchnpn.datasets.dataset import Dataset, Info, Original, Source
from torchnpn.datasets.download import Clock, DownloadError, Patience, Progress, download

SOURCES: dict[str, Source] = {source.name: source for source in (*uci.SOURCES, insurance.SOURCE)}
_FOREIGN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # arrays of other names, types, values


class Verdict(NamedTuple):
    """What `verify` found: status is "ok", "absent", "different" or "unreadable"."""

    name: str
    status: str


def register(*added: Source) -> None:
    """Let `load` and the others know data sets of another package.

    A package that names a module which does so under the entry points `npn.datasets` need not be imported first.
    """
    SOURCES.update({source.name: source for source in added})


def load(name: str) -> Dataset:
    """The data set called `name`, from `$TORCHNPN_DATA`, the cache, or its source; `toy` is generated.

    Other packages add data sets of their own: images and texts come with the studies, and of texts `load` gives
    `npn_studies.datasets.Documents`.

    Raises:
        ValueError: If there is no such name, or the file is damaged or holds something else.
        FileNotFoundError: If the file must be put in place by hand; the message says what and where.
        DownloadError: If it could not be downloaded.
    """
    if name == toy.INFO.name:
        return toy.dataset()
    source, path = _source(name), fetch(name)
    arrays = store.read(path)
    try:
        dataset = source.read(arrays)
    except _FOREIGN as error:
        raise ValueError(
            f"{path} is not the file of {name!r} ({type(error).__name__}: {error}): it holds {', '.join(arrays)}. "
            f"{_anew(path)}"
        ) from error
    try:
        dataset.check_size(source.rows, source.columns)
    except ValueError as error:
        raise ValueError(f"{path} {error}. {_anew(path)}") from error
    return dataset


def fetch(name: str, progress: Progress | None = None, *, patience: Patience | None = None) -> Path:
    """The path of the file of a data set, downloaded and converted first if it is not there.

    Args:
        name: One of the names of `available()`.
        progress: Called as `progress(bytes so far, bytes in all or None)` while downloading.
        patience: How long to wait; by default ten minutes for all of a data set, or as many seconds as the variable
            `TORCHNPN_DOWNLOAD_SECONDS` says, and half a minute without a byte.

    Raises:
        ValueError: If there is no such name.
        FileNotFoundError: If there is no file to fetch, or it must be put in place by hand; the message says so.
        DownloadError: If it could not be downloaded, or is not what it should be. Nothing is kept then.
        OSError: If the cache cannot be written to.
    """
    if name == toy.INFO.name:
        raise FileNotFoundError(f"{name!r} has no file to fetch: datasets.load({name!r}) generates it.")
    source = _source(name)
    path = store.locate(source.path)
    if path.is_file():
        return path
    if source.convert is None:
        raise FileNotFoundError(f"The file of {name!r} is not here. {source.by_hand} Then {_put(source, path)}")
    store.make_folder(path)  # better to fail before the download than after
    try:
        originals = _download(source.originals, progress, Clock(patience or Patience.usual()))
    except DownloadError as error:
        advice = f"Without a network, fetch {name!r} on another machine, then {_put(source, path)}"
        raise DownloadError(" ".join(filter(None, (str(error), source.by_hand, advice)))) from error
    try:
        arrays = source.convert(originals)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # of whatever the server sent
        raise DownloadError(f"The originals of {name!r} are not as expected: {error}. Nothing was kept.") from error
    if source.digest and store.digest(arrays) != source.digest:
        raise DownloadError(f"The originals of {name!r} have changed at {source.origin}. Nothing was kept.")
    store.write(path, arrays)
    return path


def verify(name: str | None = None) -> list[Verdict]:
    """Whether the file of a data set, or of each one, holds the values that it should; `toy` needs no file."""
    names = [*_sources(), toy.INFO.name] if name is None else [name]
    return [Verdict(name, "ok" if name == toy.INFO.name else _status(_source(name))) for name in names]


def available() -> list[Info]:
    """All data sets, whether their files are present, and where."""
    found = [(one, store.locate(one.path)) for one in _sources().values()]
    return [
        *(
            Info(one.name, one.title, one.rows, one.columns, one.task, one.licence, one.origin, path.is_file(), path)
            for one, path in found
        ),
        toy.INFO,
    ]


@functools.cache
def _import_registering_modules() -> None:
    for point in entry_points(group="npn.datasets"):
        point.load()


def _sources() -> dict[str, Source]:
    _import_registering_modules()
    return SOURCES


def _source(name: str) -> Source:
    if name not in _sources():
        names = [*_sources(), toy.INFO.name]
        raise ValueError(f"There is no data set {name!r}.{did_you_mean(name, names, most=40)}")
    return SOURCES[name]


def _download(originals: tuple[Original, ...], progress: Progress | None, clock: Clock) -> Mapping[str, bytes]:
    """All files by name; progress counts their bytes together, whose total is known only for a single file."""
    bodies: dict[str, bytes] = {}
    for original in originals:
        before = sum(map(len, bodies.values()))

        def report(received: int, total: int | None, before: int = before) -> None:
            if progress is not None:
                progress(before + received, total if len(originals) == 1 else None)

        bodies[original.name] = download(original.url, original.sha256, report, most=original.most, clock=clock)
    return bodies


def _status(source: Source) -> str:
    path = store.locate(source.path)
    if not path.is_file():
        return "absent"
    try:
        arrays = store.read(path)
    except (OSError, ValueError):
        return "unreadable"
    if source.digest:
        return "ok" if store.digest(arrays) == source.digest else "different"
    try:
        source.read(arrays)
    except _FOREIGN:
        return "different"
    return "ok"


def _put(source: Source, path: Path) -> str:
    return f"put the file at {path}, or set TORCHNPN_DATA to a folder that holds {source.path}."


def _anew(path: Path) -> str:
    return f"Delete {path.name}, and fetch it anew."
