"""What tests of data sets share: an empty cache, and a folder of originals behind a server on this machine."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def empty_cache(tmp_path: Path, monkeypatch) -> Path:
    """An empty cache, no data folder, and no proxy between us and this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv("TORCHNPN_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "caches" / "torchnpn"


def files(folder: Path) -> list[Path]:
    """All files below a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


@contextmanager
def served(folder: Path, contents: dict[str, bytes]) -> Iterator[str]:
    """The address of a server of `folder`, into which `contents` are written by their names."""
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
