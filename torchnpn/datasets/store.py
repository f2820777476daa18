"""Where data files lie, how they are read, and how they are written: whole, or not at all."""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    """All arrays of an `.npz` file; never unpickles.

    Raises:
        ValueError: If the file is damaged, or no `.npz` file of plain arrays.
    """
    content = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:  # its check sums are compared before numpy sees a byte
            return {
                name.removesuffix(".npy"): np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()
            }
    except (
        OSError,
        ValueError,
        EOFError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:  # ways of damaged zips
        raise ValueError(
            f"{path} is damaged, or no .npz file of plain arrays ({error}). Delete it, and fetch it anew."
        ) from error


def make_folder(path: Path) -> None:
    """Make the folder that `path` will lie in.

    Raises:
        OSError: If that is not possible; the message says what to set.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def write(path: Path, arrays: Arrays) -> None:
    """Store arrays under `path`: written beside and renamed, so that nothing half-written is ever found there.

    Raises:
        OSError: If the folder cannot be written to; the message says what to set.
    """
    make_folder(path)
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with beside.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # numpy's stub takes an array for a flag
        os.replace(beside, path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        beside.unlink(missing_ok=True)


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
