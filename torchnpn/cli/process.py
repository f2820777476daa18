"""The command as a process: streams that may be closed or know no Greek, signals, and warnings."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from torchnpn.cli.errors import OTHER, print_to_stderr


@contextmanager
def prepared() -> Iterator[None]:
    """Run the command in it: what goes wrong around the command is one line, or nothing."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # an ASCII terminal sees \u00e9, not a traceback
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)
    warnings.showwarning = _say_in_one_line
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # of numpy; results are checked where they matter
    warnings.filterwarnings("ignore", category=FutureWarning)
    try:
        try:
            yield
        finally:
            if sys.__stdout__ is not None:
                sys.__stdout__.flush()
    except BrokenPipeError:  # whoever read our output has seen enough, as in `npn predict … | head`
        _discard_output()
        sys.exit(OTHER)
    except OSError as error:
        _discard_output()
        print_to_stderr(f"cannot write the output: {error.strerror or type(error).__name__}.")
        sys.exit(OTHER)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """As for Ctrl-C: temporary files are deleted on the way out."""
    print_to_stderr("stopped by a signal. No file was left half-written.")
    sys.exit(128 + number)


def _open_closed_streams() -> None:
    """A stream that was closed (`npn … >&-`) would lend its number to the next file that is opened."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            stream = open(number, "r" if number == 0 else "w", closefd=False)  # noqa: SIM115  # for the whole process
            setattr(sys, name, stream)


def _discard_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _say_in_one_line(message: Warning | str, *_: Any, **__: Any) -> None:
    print_to_stderr(f"note: {message}")
