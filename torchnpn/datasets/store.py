"""Where data files lie, how they are read, and how they are written: whole, or not at all."""

from __future__ import annotations

import hashlib
import io
import math
import os
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchnpn._files import open_plain_file, whole_file

MOST_ARRAYS = 1_000
SMALL = 32 << 20  # bytes that any file may expand to
MOST_EXPANSION = 20  # bytes for each of a file, beyond
Arrays = Mapping[str, NDArray[Any]]  # what an .npz file holds


def cache() -> Path:
    """The folder for files that we fetch: `$XDG_CACHE_HOME/torchnpn`, or the platform's own place for caches."""
    if home := os.environ.get("XDG_CACHE_HOME"):
        return Path(home) / "torchnpn"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "torchnpn"
    if sys.platform == "win32" and (home := os.environ.get("LOCALAPPDATA")):
        return Path(home) / "torchnpn"
    return Path.home() / ".cache" / "torchnpn"


def locate(relative: str) -> Path:
    """The file under `$TORCHNPN_DATA` if there is one, else its place in the cache, there or not."""
    folder = os.environ.get("TORCHNPN_DATA")
    if folder and (path := Path(folder).expanduser() / relative).is_file():
        return path
    return cache() / relative


def read(path: Path) -> Arrays:
    """All arrays of an `.npz` file; never unpickles, and takes no more memory than the file may need.

    A ValueError says that it is damaged, no file of plain arrays, or made to be far larger than it looks.
    """
    try:
        with open_plain_file(path) as file, zipfile.ZipFile(file) as archive:
            _check_sizes(archive, path.stat().st_size)
            return {entry.filename.removesuffix(".npy"): _array(archive.read(entry)) for entry in archive.infolist()}
    except _DAMAGE as error:
        raise ValueError(
            f"{path} is damaged, or no .npz file of plain arrays ({str(error)[:200]}). Delete it, and fetch it anew."
        ) from error


def _check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """Raise where an archive would take far more memory than data do; zipfile reads no more than an entry declares."""
    entries = archive.infolist()
    if len(entries) > MOST_ARRAYS or len({entry.filename for entry in entries}) < len(entries):
        raise ValueError(f"it should hold at most {MOST_ARRAYS} arrays of different names, got {len(entries)}")
    if not all(entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise ValueError("it is compressed in another way than numpy does")
    expanded = sum(entry.file_size for entry in entries)
    if expanded > SMALL + MOST_EXPANSION * size:
        raise ValueError(f"its {size} bytes would expand to {expanded}")


def _array(content: bytes) -> NDArray[Any]:
    """The array of an `.npy` file, whose header must fit its bytes: numpy would take memory for whatever it says."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"an array is of the unknown version {version}")
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError("an array holds Python objects, which allow_pickle=False refuses")
    if math.prod(shape) * dtype.itemsize != len(content) - file.tell() or min(shape, default=0) < 0:
        raise ValueError(f"an array of shape {str(shape)[:80]} does not have the bytes that are there")
    file.seek(0)
    array: NDArray[Any] = np.load(file, allow_pickle=False)
    return array


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_DAMAGE = (  # ways of damaged zips and arrays
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def make_folder(path: Path) -> None:
    """Make the folder that `path` will lie in; an OSError says what to set."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def write(path: Path, arrays: Arrays) -> None:
    """Store arrays under `path`, as a file that is whole or not there; an OSError says what to set."""
    make_folder(path)
    try:
        with whole_file(path) as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # numpy's stub takes an array for a flag
    except OSError as error:
        raise _unwritable(path, error) from error


def digest(arrays: Arrays) -> str:
    """The sha256 of names, types, shapes and values: the same for every way to pack the same arrays."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def _unwritable(path: Path, error: OSError) -> OSError:
    return OSError(
        f"Cannot write {path} ({error.strerror or error}). "
        "Set XDG_CACHE_HOME to a folder that you may write to, or put the file under TORCHNPN_DATA."
    )
