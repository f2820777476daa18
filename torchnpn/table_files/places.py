"""Where a table lies: a path of this machine, or an address such as s3://bucket/folder, which fsspec reads."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from torchnpn.table_files.formats import TableError


def place(text: str) -> Path:
    """The path that a text names; of an address one that behaves alike.

    Raises:
        TableError: What reads such addresses is not installed, or there is no such kind of address.
    """
    if "://" not in text:
        return Path(text)
    try:
        from upath import UPath
    except ImportError:
        raise TableError(f"{text} is an address, not a path. To read it: pip install 'torchnpn[cloud]'.") from None
    try:
        found = UPath(text)
        found.fs  # noqa: B018  # which needs a package for each kind, such as s3fs
    except (ImportError, ValueError) as error:
        reason = str(error).removeprefix("Value error, ").rstrip(".")
        raise TableError(f"{text} cannot be read: {reason}.") from None
    return cast(Path, found)
