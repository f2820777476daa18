"""Files that are whole or not there: how every file of the library is written, and how one is opened for reading.

A file is written under a temporary name in the folder of its own, synchronised with the disk, and renamed. A kill, a
full disk or an exception at any moment leaves the file that was there before, or the new one, and never half of one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: leftovers of killed processes stay there
    fcntl = None  # type: ignore[assignment]


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file that takes the name `path` at the end of the block; after an exception it was never there.

    A link stays a link, and leads to the new file. What processes that were killed left here for the same path is
    removed.

    Raises:
        OSError: If it cannot be written, with `path` as its file name: a full disk, no permission, a folder.
        ValueError: If there is a device or a pipe under `path`.
    """
    final = Path(os.path.realpath(path))
    try:
        _check_replaceable(final)
        _remove_leftovers(final)
        temporary = final.with_name(f"{_prefix(final)}{secrets.token_hex(8)}.tmp")
        try:
            with _created(temporary) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if fcntl is None:
                    file.close()  # Windows renames no open file
                os.replace(temporary, final)
        finally:
            temporary.unlink(missing_ok=True)
        _synchronise_folder(final.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error


def open_plain_file(path: str | os.PathLike[str]) -> BinaryIO:
    """The plain file under `path`, open for reading; a ValueError for a device or a pipe, which may never answer."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ValueError("it is a device or a pipe, not a plain file")
    return open(path, "rb")


def _check_replaceable(path: Path) -> None:
    if path.is_symlink():  # after all links were followed
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a device or a pipe. Choose the path of a plain file.")


def _prefix(path: Path) -> str:
    """How temporary files for `path` begin; short, because the name itself may be as long as names can be."""
    return f".npn-{zlib.crc32(os.fsencode(path.name)):08x}-"


@contextmanager
def _created(path: Path) -> Iterator[BinaryIO]:
    """A new file, locked for as long as it is open, so that others can tell it from one whose process was killed."""
    while True:
        with open(path, "xb") as file:
            _lock(file, wait=True)
            if path.exists():  # nobody took it for a leftover before it was locked
                yield file
                return


def _remove_leftovers(path: Path) -> None:
    """Delete temporary files for `path` that nobody holds a lock on: their processes are gone."""
    for found in path.parent.glob(f"{_prefix(path)}*.tmp"):
        with contextlib.suppress(OSError), open(found, "rb") as file:
            if _lock(file, wait=False):
                found.unlink(missing_ok=True)


def _lock(file: BinaryIO, wait: bool) -> bool:
    """Whether the file is now locked by us; not where the file system has no locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _synchronise_folder(folder: Path) -> None:
    """Make a renaming last; not every system can."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
