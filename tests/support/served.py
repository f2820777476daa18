"""What tests of data sets share: an empty cache, a table of five rows, and servers of originals on this machine."""

from __future__ import annotations

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from torchnpn.datasets import catalogue, store, uci

# A table of five rows as it would lie at the source: the target in the middle, whole numbers written as floats.
TEXTS = {
    "data": b"1.5 10 -0.1\n2.5 20 0.2\n3.5 30 0.3\n4.5 40 1e-3\n5.5 50 0.5\n",
    "index_features": b"0.000000000000000000e+00\n2.000000000000000000e+00\n",
    "index_target": b"1\n",
    "n_hidden": b"50\n",
    "n_epochs": b"40\n",
    "index_train_0": b"4.0\n0.0\n2.0\n",
    "index_test_0": b"1\n3\n",
    "index_train_1": b"0\n1\n3\n",
    "index_test_1": b"2\n4\n",
}
ARRAYS = {
    "X": np.array([[1.5, -0.1], [2.5, 0.2], [3.5, 0.3], [4.5, 1e-3], [5.5, 0.5]]),
    "y": np.array([10.0, 20.0, 30.0, 40.0, 50.0]),
    "train_idx": np.array([[4, 0, 2], [0, 1, 3]], dtype=np.uint16),
    "test_idx": np.array([[1, 3], [2, 4]], dtype=np.uint16),
    "n_hidden": np.array(50),
    "n_epochs": np.array(40),
}
TINY = uci.Table(
    name="tiny",
    folder="tiny",
    title="Five rows",
    rows=5,
    splits=2,
    features=("a", "b"),
    target="t",
    sha256=hashlib.sha256(TEXTS["data"]).hexdigest(),
    digest=store.digest(ARRAYS),
)


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


class Server:
    """Serves `texts` under the names of a UCI folder, and remembers what was asked for."""

    def __init__(self, texts: dict[str, bytes], folder: str = "tiny"):
        self.bodies = {f"/{folder}/data/{name}.txt": body for name, body in texts.items()}
        self.lengths: dict[str, int] = {}  # a Content-Length that is not the body's
        self.asked: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                if self.path not in outer.bodies:
                    self.send_error(404)
                    return
                body = outer.bodies[self.path]
                self.send_response(200)
                self.send_header("Content-Length", str(outer.lengths.get(self.path, len(body))))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self) -> Server:
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@contextmanager
def tiny_server(monkeypatch) -> Iterator[Server]:
    """A server of the data set "tiny", which is in the catalogue for as long."""
    with Server(TEXTS) as server:
        monkeypatch.setitem(catalogue.SOURCES, "tiny", uci.source(TINY, server.base))
        yield server
