"""Files are whole or not there: after an exception, a full disk, a kill, and with several writers at once."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from torchnpn import _files

ROOT = Path(__file__).parent.parent


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path: Path, content: bytes) -> None:
    with _files.whole_file(path) as file:
        file.write(content)


@pytest.fixture
def path(tmp_path) -> Path:
    (tmp_path / "file").write_bytes(b"old")
    return tmp_path / "file"


def test_a_file_is_replaced(path):
    with _files.whole_file(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(path.parent) == ["file"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, MemoryError])
def test_an_exception_leaves_the_old_file(path, error):
    def interrupted() -> None:
        with _files.whole_file(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        interrupted()
    assert (path.read_bytes(), names(path.parent)) == (b"old", ["file"])


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_names_the_file(path, call, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/file'") as caught:
        write(path, b"new")
    assert caught.value.errno == errno.ENOSPC
    assert (path.read_bytes(), names(path.parent)) == (b"old", ["file"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_disk_that_fills_up_while_writing(path, monkeypatch):
    """The bytes go to a device that is always full."""
    monkeypatch.setattr("builtins.open", lambda *_, **__: os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb"))
    monkeypatch.setattr(Path, "exists", lambda _: True)
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    with pytest.raises(OSError, match=r"No space left on device: '.*/file'"):
        write(path, b"new" * 100_000)


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(IsADirectoryError):
        write(tmp_path, b"")
    with pytest.raises(FileNotFoundError, match="nowhere/file"):
        write(tmp_path / "nowhere" / "file", b"")
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(ValueError, match="a device or a pipe"):
            write(place, b"")
    for place in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ValueError, match="a device or a pipe"):
            _files.open_plain_file(place)
    with pytest.raises(IsADirectoryError):
        _files.open_plain_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        _files.open_plain_file(tmp_path / "nothing")


def test_the_longest_name_that_there_is(tmp_path):
    write(tmp_path / ("x" * 255), b"new")
    assert names(tmp_path) == ["x" * 255]


def test_writers_at_once_leave_one_whole_file(path):
    contents = [bytes([i]) * 100_000 for i in range(8)]
    threads = [threading.Thread(target=lambda c=c: [write(path, c) for _ in range(5)]) for c in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert names(path.parent) == ["file"]


PROGRAM = """
import sys, time
from torchnpn import _files
with _files.whole_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(600)
"""


def killed_writer(path: Path) -> int:
    """The exit status of a process that is killed while it writes."""
    command = [sys.executable, "-c", PROGRAM, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        process.kill()
        return process.wait()


@pytest.mark.slow
def test_a_killed_writer_is_cleaned_up_after_by_the_next(path):
    assert killed_writer(path) == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert len(names(path.parent)) == 2
    with _files.whole_file(path.with_name("other")):
        pass
    assert len(names(path.parent)) == 3  # it may be anybody's: only a writer of the same file takes it away
    write(path, b"new")
    assert names(path.parent) == ["file", "other"]
