"""Tables that come through a pipe, such as standard input: kept in a temporary file, because a table is read twice."""

from __future__ import annotations

import stat
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, cast

from torchnpn.table_files.formats import TableError, ending_of

STDIN = Path("-")
_CHUNK = 1 << 20
_MOST_BYTES = 32 << 30
_OPEN_PIPES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")  # a process that writes is at the other end


def is_pipe(path: Path) -> bool:
    """Whether a path stands for a stream that can be read once only; a TableError for a pipe that may stay empty."""
    if path == STDIN:
        return True
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False  # whoever opens it says why it cannot be read
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return False
    if stat.S_ISFIFO(mode) and str(path).startswith(_OPEN_PIPES):
        return True
    raise TableError(f"{path} is a device or a pipe, not a file. Send the table to standard input, and give - for it.")


def spooled(path: Path) -> IO[bytes]:
    """All that comes through a pipe, in a temporary file that is deleted when it is closed or no longer used."""
    if path == STDIN and sys.stdin.isatty():
        raise TableError("- reads a table from standard input, which is a terminal here. Use: npn … - < table.csv")
    source: Any = sys.stdin.buffer if path == STDIN else open(path, "rb")  # noqa: SIM115
    start = source.read(_CHUNK)
    file = tempfile.NamedTemporaryFile(prefix="npn-", suffix=ending_of(start))  # noqa: SIM115  # its user closes it
    size = 0
    while start:
        file.write(start)
        if (size := size + len(start)) > _MOST_BYTES:
            raise TableError(f"Standard input is longer than {_MOST_BYTES >> 30} GiB. Save it to a file first.")
        start = source.read(_CHUNK)
    file.flush()
    return cast(IO[bytes], file)


def spooled_bytes(content: bytes) -> IO[bytes]:
    """A text file in a temporary file, likewise."""
    file = tempfile.NamedTemporaryFile(prefix="npn-", suffix=".csv")  # noqa: SIM115  # its user closes it
    file.write(content)
    file.flush()
    return cast(IO[bytes], file)
