"""A user's mistake is one line on the error stream and an exit status, never a traceback."""

from __future__ import annotations

import errno
import functools
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, ParamSpec

import typer
from typer.core import TyperGroup

from torchnpn.report import printable

OTHER, USAGE, INTERRUPTED = 1, 2, 130
STDOUT = Path("-")
TRACEBACK = "NPN_TRACEBACK"  # environment variable that asks for the traceback of an unexpected error
_LONGEST = 1_000  # characters of a line
_USERS = {  # errors of the file system that another argument would mend
    *(errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP, errno.ENXIO, errno.ENODEV),
}
_NO_MEMORY = "not enough memory. Learn from fewer rows with --max-rows, or with fewer units in --hidden."
Arguments = ParamSpec("Arguments")


class WriteError(Exception):
    """A file could not be written; carries the path that the user gave, and what to do."""

    def __init__(self, path: Path, cause: OSError, advice: str) -> None:
        super().__init__(path, cause, advice)  # all of them: it may come from another process
        self.path, self.cause, self.advice = path, cause, advice


class OneLineGroup(TyperGroup):
    """Commands whose wrong usage, too, is one line."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command and leave the process."""
        kwargs["standalone_mode"] = False
        kwargs["prog_name"] = "npn"  # also for `python -m torchnpn`
        try:
            status = super().main(*args, **kwargs)
        except (typer.Abort, KeyboardInterrupt):
            status = INTERRUPTED
        except Exception as error:
            if not hasattr(error, "format_message"):  # of a usage error of click, or of typer's own copy of it
                raise
            status = USAGE
            if type(error).__name__ == "NoArgsIsHelpError":
                typer.echo(error.format_message(), err=True)
            else:
                print_to_stderr(_usage(error))
        if status == INTERRUPTED:
            print_to_stderr("stopped. No file was left half-written.")
        sys.exit(status if isinstance(status, int) else 0)


def print_to_stderr(message: str) -> None:
    """One line on the error stream."""
    text, rank = printable(" ".join(message.split())), os.environ.get("RANK", "0")
    who = f"npn, process {rank}" if "TORCHELASTIC_RUN_ID" in os.environ and rank != "0" else "npn"
    typer.echo(f"{who}: {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}", err=True)


def fail(message: str, status: int = USAGE) -> NoReturn:
    """Say what is wrong, in one line, and stop."""
    print_to_stderr(message)
    raise typer.Exit(status)


def in_one_line(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """A command whose errors are lines."""

    @functools.wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise  # a line was written already, or nobody reads on: `process` knows
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            fail(*_explained(error))

    return run


def _explained(error: Exception) -> tuple[str, int]:
    """An error in words, and the exit status."""
    if isinstance(error, WriteError):
        name = "the output" if error.path == STDOUT else error.path
        return f"cannot write {name}: {_reason(error.cause)}.{error.advice}", _status(error.cause)
    if isinstance(error, OSError):
        if error.errno is None:
            return str(error), OTHER
        task = "write the output" if error.filename is None else f"read {os.fsdecode(error.filename)}"
        return f"cannot {task}: {_reason(error)}.", _status(error)
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error).lower()):
        return _NO_MEMORY, USAGE
    if isinstance(error, ValueError) and str(error):  # said by whoever checks the values: tables, models, estimators
        return str(error), USAGE
    return f"unexpected {type(error).__name__}: {error}. Set {TRACEBACK}=1 to see where it comes from.", USAGE


@contextmanager
def writing(path: Path, advice: str = "") -> Iterator[None]:
    """Errors of the file system are about `path`, whatever file beside it they were met in; then `advice` follows."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError(path, error, advice) from error


def check_writable(path: Path, *inputs: Path) -> None:
    """Fail now, not after the work, where a file cannot be written or would replace an input."""
    with writing(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "It is a device or a pipe, and not a plain file")
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    for other in inputs:
        if path.exists() and other.exists() and path.samefile(other):
            fail(f"the output {path} would replace the input. Choose another name with -o.")


def _usage(error: Any) -> str:
    """What click says about arguments, with the command that explains them."""
    context = getattr(error, "ctx", None)
    more = f" Try: {context.command_path} --help" if context is not None else ""
    text = re.sub(r" \(Possible options: (.*)\)", _suggestion, str(error.format_message())).rstrip(".")
    return f"{text[:1].lower()}{text[1:]}{'' if text.endswith('?') else '.'}{more}"


def _suggestion(listed: re.Match[str]) -> str:
    names = [name for name in listed[1].split(", ") if name != "--help"]
    return f". Did you mean {' or '.join(names)}?" if names else ""


def _reason(error: OSError) -> str:
    """What the system said, without what the library made of it."""
    while isinstance(error.__cause__, OSError):
        error = error.__cause__
    return error.strerror or type(error).__name__


def _status(error: OSError) -> int:
    return USAGE if error.errno in _USERS else OTHER
