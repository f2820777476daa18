"""A small server with the standard library alone: `POST /predict` with JSON rows or a CSV table, `GET /health`.

`npn serve` of torchnpn does more: a page, metrics, and many requests at once in one pass of the network.
"""

from __future__ import annotations

import io
import json
import math
import signal
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from npn_runtime import __version__, csv_files
from npn_runtime.errors import ModelError, TableError
from npn_runtime.model import Model

MOST_BYTES, MOST_ROWS, SECONDS = 8 << 20, 20_000, 30.0  # of a request; that it may take to arrive
CONNECTIONS = 100  # at a time; more wait in the queue of the system


class Refused(Exception):  # it is an answer, not a failure
    """A request that gets a status from 400 on, and one sentence that says why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Server(ThreadingHTTPServer):
    """Answers with the predictions of one model."""

    daemon_threads, request_queue_size = True, 256

    def __init__(self, model: Model, address: tuple[str, int]) -> None:
        super().__init__(address, _Handler)
        self.model, self.free = model, threading.BoundedSemaphore(CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.free.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is the other side's affair."""


def serve(model: Model, host: str, port: int) -> None:
    """Answer until a signal says to stop."""
    with Server(model, (host, port)) as server:
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
        print(f"npn-runtime answers at http://{host}:{server.server_address[1]}/predict", flush=True)
        server.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = f"npn-runtime/{__version__}", ""
    protocol_version, timeout = "HTTP/1.1", SECONDS
    disable_nagle_algorithm: ClassVar[bool] = True

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer(200, {"status": "ok", "version": __version__})
        elif self.path == "/model":
            self._answer(200, self.server.model.about)
        else:
            self._answer(404, {"error": "There are POST /predict, GET /model and GET /health."})

    def do_POST(self) -> None:
        try:
            path, _, query = self.path.partition("?")
            if path != "/predict":
                raise Refused(404, "There are POST /predict, GET /model and GET /health.")
            body, kind, level = self._body(), self.headers.get_content_type(), _level(query)
            if kind == "text/csv":
                self._send(200, _as_csv(self.server.model, body, level), "text/csv; charset=utf-8")
            elif kind in ("application/json", "application/x-www-form-urlencoded"):  # the second is what curl -d says
                self._answer(200, _as_json(self.server.model, body, level))
            else:
                raise Refused(415, "Expected a body of content-type application/json or text/csv.")
        except Refused as refused:
            self._answer(refused.status, {"error": refused.sentence})
        except (TableError, ModelError) as error:
            self._answer(422, {"error": str(error)})

    def _body(self) -> bytes:
        length = self.headers.get("content-length", "")
        if not length.isdecimal():
            self.close_connection = True
            raise Refused(411, "Expected a header content-length.")
        if int(length) > MOST_BYTES:
            self.close_connection = True
            raise Refused(413, f"Expected at most {MOST_BYTES >> 20} MiB, got {length} bytes: send the rows in parts.")
        return self.rfile.read(int(length))

    def _answer(self, status: int, content: Any) -> None:
        self._send(status, json.dumps(_finite(content)).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged."""


def _level(query: str) -> float | None:
    """Of the intervals, if one is asked for."""
    given = urllib.parse.parse_qs(query).get("level", [None])[-1]
    try:
        return None if given is None else float(given)
    except ValueError:
        raise Refused(422, f"level expects a number such as 0.9, got {given!r}.") from None


def _as_json(model: Model, body: bytes, level: float | None) -> Any:
    """An object for a row, a list of them for a list of rows."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"The body is not JSON: {error}.") from None
    rows = [content] if isinstance(content, dict) else content
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise Refused(422, "Expected a row as a JSON object, or a list of rows.")
    _check_count(len(rows))
    for number, row in enumerate(rows, 1):
        if missing := next((name for name in model.names if name not in row), None):
            raise Refused(
                422, f"Column {missing!r} is missing from row {number:,}; send null where a value is unknown."
            )
    predicted = model.predict({name: [row[name] for row in rows] for name in model.names}, level)
    values = zip(*(column.tolist() for column in predicted.values()), strict=True)
    answers = [dict(zip(predicted, row, strict=True)) for row in values]
    return answers[0] if isinstance(content, dict) else answers


def _as_csv(model: Model, body: bytes, level: float | None) -> bytes:
    """The table with predictions beside its columns."""
    out = io.StringIO(newline="")
    count = 0
    for part in csv_files.read_text(io.BytesIO(body), "The body", model.names):
        _check_count(count := count + part.rows)
        predicted = model.predict_part(part, level)
        if taken := predicted.keys() & part.columns.keys():
            raise Refused(422, f"The table already has a column {min(taken)!r}: leave it out.")
        csv_files.write(out, part, predicted, with_header=part.first_row == 1)
    return out.getvalue().encode()


def _check_count(rows: int) -> None:
    if rows > MOST_ROWS:
        raise Refused(413, f"Expected at most {MOST_ROWS:,} rows in a request: send them in parts.")


def _finite(content: Any) -> Any:
    """JSON has no NaN: what is unknown is null."""
    match content:
        case float():
            return content if math.isfinite(content) else None
        case dict():
            return {name: _finite(value) for name, value in content.items()}
        case list():
            return [_finite(value) for value in content]
    return content
