"""One file from the web into memory, checked: whole, and the bytes that were meant."""

from __future__ import annotations

import hashlib
import http.client
import urllib.request
from collections.abc import Callable

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known

CHUNK = 1 << 16  # bytes between two reports
TIMEOUT = 30.0  # seconds without an answer


class DownloadError(OSError):
    """A file could not be had, or is not the one that was meant."""


def download(url: str, sha256: str | None = None, progress: Progress | None = None) -> bytes:
    """The bytes at `url`.

    Args:
        url: The address.
        sha256: What they must hash to; None leaves the check to the caller.
        progress: Called as `progress(bytes so far, bytes in all or None)`.

    Raises:
        DownloadError: If the address cannot be reached, the answer breaks off, or the bytes are others.
    """
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            body, total = _receive(response, progress)
    except (OSError, http.client.HTTPException) as error:  # unknown host, refused, 404, silence, a broken answer
        raise DownloadError(f"Could not get {url} ({error}).") from error
    if total is not None and len(body) != total:
        raise DownloadError(f"{url} broke off: expected {total} bytes, got {len(body)}. Try again.")
    found = hashlib.sha256(body).hexdigest()
    if sha256 is not None and found != sha256:
        raise DownloadError(
            f"{url} is not the file that is expected: its sha256 is {found}, not {sha256}. Nothing was kept. "
            "Try again; if it stays so, the file was changed at its source."
        )
    return body


def _receive(response: http.client.HTTPResponse, progress: Progress | None) -> tuple[bytes, int | None]:
    total = response.length  # None where the server does not say
    body = bytearray()
    while chunk := response.read(CHUNK):
        body += chunk
        if progress is not None:
            progress(len(body), total)
    return bytes(body), total
