"""A user's mistake is one line on the error stream and an exit status, never a traceback."""

from __future__ import annotations

import errno
import functools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, ParamSpec

import typer

from torchnpn.io import ModelFileError
from torchnpn.tables import TableError

OTHER, USAGE, INTERRUPTED = 1, 2, 130
_USERS = {  # errors of the file system that another argument would mend
    errno.ENOENT,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.EINVAL,
}
Arguments = ParamSpec("Arguments")


class WriteError(Exception):
    """A file could not be written; carries the path that the user gave."""

    def __init__(self, path: Path, cause: OSError) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause


def fail(message: str, status: int = USAGE) -> NoReturn:
    """Say what is wrong, in one line, and stop."""
    typer.echo(f"npn: {' '.join(message.split())}", err=True)
    raise typer.Exit(status)


def in_one_line(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """A command whose expected errors are lines."""

    @functools.wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (TableError, ModelFileError) as error:
            fail(str(error))
        except WriteError as error:
            fail(f"cannot write {error.path}: {_reason(error.cause)}.", _status(error.cause))
        except BrokenPipeError:
            raise  # nobody reads on: `main` knows
        except OSError as error:
            if error.errno is None:
                fail(str(error), OTHER)
            task = "write the output" if error.filename is None else f"read {error.filename}"
            fail(f"cannot {task}: {_reason(error)}.", _status(error))
        except MemoryError:
            fail("there is not enough memory. Learn from fewer rows with --max-rows.", OTHER)
        except KeyboardInterrupt:
            fail("stopped. No file was left half-written.", INTERRUPTED)

    return run


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of the file system are about `path`, whatever file beside it they were met in."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError(path, error) from error


def check_writable(path: Path) -> None:
    """Fail now, not after the work, where a file cannot be written."""
    with writing(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "It is a device or a pipe, and not a plain file")
        with tempfile.TemporaryFile(dir=path.parent):
            pass


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _status(error: OSError) -> int:
    return USAGE if error.errno in _USERS else OTHER
