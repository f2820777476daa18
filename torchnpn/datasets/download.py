"""One file from the web into memory, checked: whole, no larger and no slower than it may be, the bytes that were meant.

A server is not trusted. Every byte from it, those of headers and redirections too, is counted and timed where it
leaves the socket.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known

CHUNK = 1 << 16  # bytes between two reports, at most
MOST_BYTES = 1 << 30  # of a file whose size is not recorded
_MOST_AROUND = 1 << 20  # bytes of headers and redirections
_SCHEMES = ("http", "https")


class DownloadError(OSError):
    """A file could not be had, or is not the one that was meant."""


class Patience(NamedTuple):
    """How long to wait, in seconds."""

    total: float = 600.0  # for all of a data set
    silence: float = 30.0  # without a byte
    window: float = 15.0  # in which at least `least` bytes must come
    least: int = 1_000

    @classmethod
    def usual(cls) -> Patience:
        """The numbers above; the variable `TORCHNPN_DOWNLOAD_SECONDS` sets the total."""
        given = os.environ.get("TORCHNPN_DOWNLOAD_SECONDS")
        if given is None:
            return cls()
        try:
            total = float(given)
        except ValueError:
            total = 0.0
        if not 0 < total < float("inf"):
            raise ValueError(f"TORCHNPN_DOWNLOAD_SECONDS expects a number of seconds above 0, got {given!r}.")
        return cls(total)


class Clock:
    """What is left of the patience with a data set."""

    def __init__(self, patience: Patience) -> None:
        self.patience, self.end = patience, time.monotonic() + patience.total

    @property
    def left(self) -> float:
        return self.end - time.monotonic()


def download(
    url: str,
    sha256: str | None = None,
    progress: Progress | None = None,
    *,
    most: int = MOST_BYTES,
    clock: Clock | None = None,
) -> bytes:
    """The bytes at `url`, at most `most`, which must hash to `sha256`; None leaves that check to the caller.

    `progress` takes bytes so far and bytes in all, None where unknown. Without a clock the usual patience begins now. A
    DownloadError says that the address cannot be reached, that the answer breaks off, takes too long or is too large,
    or that the bytes are others.
    """
    clock = Clock(Patience.usual()) if clock is None else clock
    _check_address(url)
    pace = _Pace(url, clock, most + _MOST_AROUND)
    try:
        with _opener(pace).open(url, timeout=max(min(clock.patience.silence, clock.left), 0.01)) as response:
            body = _received(url, response, most, progress)
    except DownloadError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:  # unknown host, refused, 404, silence, garbage
        raise DownloadError(f"Could not get {url} ({str(error)[:200]}).") from error
    finally:
        pace.close()
    found = hashlib.sha256(body).hexdigest()
    if sha256 is not None and found != sha256:
        raise DownloadError(
            f"{url} is not the file that is expected: its sha256 is {found}, not {sha256}. Nothing was kept. "
            "Try again; if it stays so, the file was changed at its source."
        )
    return body


def _received(url: str, response: http.client.HTTPResponse, most: int, progress: Progress | None) -> bytes:
    if response.status != 200:
        raise DownloadError(f"Could not get {url}: the server answers with status {response.status}, not 200.")
    if (coding := response.headers.get("Content-Encoding", "identity")) != "identity":
        raise DownloadError(f"Could not get {url}: the server sends it as {coding[:40]}, which was not asked for.")
    total = response.length  # None where the server does not say
    if total is not None and total > most:
        raise DownloadError(f"{url} is too large: at most {most} bytes are expected, {total} are announced.")
    body = bytearray()
    while chunk := response.read1(CHUNK):
        body += chunk
        if len(body) > most:
            raise DownloadError(f"{url} is too large: at most {most} bytes are expected, and more came.")
        if progress is not None:
            progress(len(body), total)
    if total is not None and len(body) != total:
        raise DownloadError(f"{url} broke off: expected {total} bytes, got {len(body)}. Try again.")
    return bytes(body)


def _check_address(url: str) -> None:
    if urllib.parse.urlsplit(url).scheme not in _SCHEMES:
        raise DownloadError(f"Only addresses with http:// or https:// are downloaded, got {url[:200]}.")


class _Pace:
    """Bytes of all answers to one request, and the time that they take."""

    def __init__(self, url: str, clock: Clock, most: int) -> None:
        self.url, self.clock, self.most = url, clock, most
        self.came, self.since, self.in_window = 0, time.monotonic(), 0
        self.answers: list[http.client.HTTPResponse] = []

    def close(self) -> None:
        """Close all connections, those of errors and redirections too."""
        for answer in self.answers:
            answer.close()

    def wait(self) -> float:
        """For how long the next byte may be waited for."""
        if (left := self.clock.left) <= 0:
            raise DownloadError(
                f"{self.url} took too long: {self.clock.patience.total:g} seconds are over. Try again, or set "
                "TORCHNPN_DOWNLOAD_SECONDS to a larger number."
            )
        return min(left, self.clock.patience.silence)

    def count(self, came: int) -> None:
        """Bytes that were received."""
        patience, now = self.clock.patience, time.monotonic()
        self.came, self.in_window = self.came + came, self.in_window + came
        if self.came > self.most:
            raise DownloadError(f"{self.url} is too large: more than {self.most} bytes came, headers included.")
        if now - self.since > patience.window:
            if self.in_window < patience.least:
                raise DownloadError(
                    f"{self.url} is too slow: {self.in_window} bytes came in {now - self.since:.0f} seconds. Try again."
                )
            self.since, self.in_window = now, 0


class _Timed(io.RawIOBase):
    """The bytes of a socket, each counted and timed."""

    def __init__(self, sock: socket.socket, pace: _Pace) -> None:
        self.sock, self.pace, self.raw = sock, pace, sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, place: Any) -> int:
        self.sock.settimeout(self.pace.wait())
        try:
            came = int(self.raw.readinto(place) or 0)
        except TimeoutError:
            self.pace.wait()  # says so where all time is over
            raise
        self.pace.count(came)
        return came

    def close(self) -> None:
        self.raw.close()
        self.sock.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, pace: _Pace, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self.fp = io.BufferedReader(_Timed(sock, pace))
        pace.answers.append(self)


class _Handler(urllib.request.AbstractHTTPHandler):
    """Both schemes, with all bytes of the answers counted and timed."""

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_

    def __init__(self, pace: _Pace) -> None:
        super().__init__()
        self.pace = pace

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(self._connection, http.client.HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(self._connection, http.client.HTTPSConnection), req)

    def _connection(self, kind: type[http.client.HTTPConnection], *args: Any, **kwargs: Any) -> Any:
        made = kind(*args, **kwargs)
        made.response_class = partial(_Response, self.pace)  # type: ignore[assignment]
        return made


class _Redirections(urllib.request.HTTPRedirectHandler):
    """To the web alone, and not for ever: at most ten, as urllib has it."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        _check_address(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(pace: _Pace) -> urllib.request.OpenerDirector:
    """What asks the web, through proxies where the environment names some; no files, no ftp."""
    opener = urllib.request.OpenerDirector()
    opener.addheaders = [("User-Agent", "torchnpn")]
    for handler in (
        urllib.request.ProxyHandler(),
        _Handler(pace),
        _Redirections(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener
