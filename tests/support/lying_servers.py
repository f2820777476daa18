"""Servers that lie: each answers a request on its socket as no honest server would."""

from __future__ import annotations

import contextlib
import gzip
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BODY = b"1.5 10 -0.1\n"  # what is expected
OK = b"HTTP/1.1 200 OK\r\n"
Answer = Callable[[socket.socket, threading.Event], None]


def sends(*parts: bytes) -> Answer:
    """A fixed answer, then the connection is closed."""
    return lambda connection, over: connection.sendall(b"".join(parts))


def endless(start: bytes, part: bytes) -> Answer:
    """`part` again and again until the other side has enough."""

    def answer(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(start)
        while not over.is_set():
            connection.sendall(part)

    return answer


def drip(start: bytes, byte: bytes = b"x") -> Answer:
    """A byte now and then, for ever."""

    def answer(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(start)
        while not over.wait(0.02):
            connection.sendall(byte)

    return answer


def silent(start: bytes = b"") -> Answer:
    """Some bytes, then nothing, while the connection stays open."""

    def answer(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(start)
        over.wait()

    return answer


def reset(start: bytes = b"") -> Answer:
    """Some bytes, then the connection is torn down."""

    def answer(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(start)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return answer


def redirect(to: str, status: int = 302) -> Answer:
    return sends(f"HTTP/1.1 {status} Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode())


def with_length(length: object, body: bytes = BODY) -> bytes:
    return OK + f"Content-Length: {length}\r\n\r\n".encode() + body


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
HTML = b"<!DOCTYPE html><html><body>Log in first</body></html>"
LIES: dict[str, Answer] = {
    "endless body": endless(OK + b"\r\n", b"x" * 65536),
    "endless body with a small length": endless(with_length(10**12, b""), b"x" * 65536),
    "endless chunks": endless(CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n"),
    "endless headers": endless(OK, b"X-Header: " + b"x" * 50_000 + b"\r\n"),
    "endless header line": endless(OK + b"X-Header: ", b"x" * 65536),
    "endless status line": endless(b"HTTP/1.1 200 ", b"O" * 65536),
    "endless continue": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "endless body of a redirection": endless(b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", b"x" * 65536),
    "endless body of an error": endless(b"HTTP/1.1 404 Not Found\r\n\r\n", b"x" * 65536),
    "slow body": drip(OK + b"\r\n"),
    "slow body with a length": drip(with_length(10_000, b"")),
    "slow status line": drip(b""),
    "slow headers": drip(OK + b"X-Slow: "),
    "slow chunks": drip(CHUNKED, b"1\r\nx\r\n"),
    "slow size of a chunk": drip(CHUNKED, b"0"),
    "slow body of a redirection": drip(b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n"),
    "silence": silent(),
    "silence after the headers": silent(with_length(1000, b"")),
    "silence in the middle": silent(with_length(1000)),
    "length too large": sends(with_length(1000)),
    "length too small": sends(with_length(3)),
    "length of no number": sends(with_length("many", BODY[1:])),
    "negative length": sends(with_length(-5, BODY[1:])),
    "length beyond all memory": sends(with_length(10**30)),
    "two lengths": sends(OK, b"Content-Length: 3\r\nContent-Length: 12\r\n\r\n", BODY),
    "no body": sends(with_length(0, b"")),
    "no answer": sends(),
    "garbage": sends(b"\x00\xff\x16\x03\x01" * 100),
    "garbage status": sends(b"HTTP/1.1 two hundred\r\n\r\n"),
    "unknown status": sends(b"HTTP/1.1 999 What\r\n\r\n"),
    "old protocol": sends(b"HTTP/9.9 200 OK\r\n\r\n", BODY[:3]),
    "half a status line": sends(b"HTTP/1.1 2"),
    "half of the headers": sends(OK, b"Content-Le"),
    "garbage chunk": sends(CHUNKED, b"zz\r\n"),
    "negative chunk": sends(CHUNKED, b"-5\r\n", BODY),
    "huge chunk": sends(CHUNKED, b"ffffffffffffffff\r\n", BODY),
    "half a chunk": sends(CHUNKED, b"1000\r\n", BODY),
    "many headers": sends(OK, b"X: y\r\n" * 500, b"\r\n", BODY),
    "long header": sends(OK, b"X: " + b"y" * 100_000 + b"\r\n\r\n", BODY),
    "headers that are no text": sends(OK, b"\xff\xfe: \x00\r\n\r\n", b"\xff"),
    "reset at once": reset(),
    "reset after the headers": reset(with_length(1000, b"")),
    "reset in the middle": reset(with_length(1000)),
    "redirection to itself": redirect("/"),
    "redirection without a place": sends(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"),
    "redirection to a file": redirect("file:///etc/passwd"),
    "redirection to ftp": redirect("ftp://127.0.0.1/x"),
    "redirection to data": redirect("data:text/plain,1"),
    "redirection to nowhere": redirect("http://127.0.0.1:9/"),
    "redirection to nonsense": redirect("http://[::1"),
    "not found": sends(b"HTTP/1.1 404 Not Found\r\nContent-Length: 53\r\n\r\n", HTML),
    "server error": sends(b"HTTP/1.1 500 Oops\r\nContent-Length: 53\r\n\r\n", HTML),
    "log in": sends(b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"),
    "a page": sends(with_length(len(HTML), HTML)),
    "nothing new": sends(b"HTTP/1.1 304 Not Modified\r\n\r\n"),
    "no content": sends(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "a part": sends(b"HTTP/1.1 206 Partial Content\r\nContent-Length: 12\r\n\r\n", BODY),
    "compressed": sends(OK, b"Content-Encoding: gzip\r\n\r\n", gzip.compress(BODY)),
    "a bomb": sends(OK, b"Content-Encoding: gzip\r\n\r\n", gzip.compress(bytes(10**7))),
    "other bytes": sends(with_length(12, BODY[::-1])),
}


@contextmanager
def lying(answer: Answer) -> Iterator[str]:
    """The address of a server that gives this answer to every request."""
    over, listener = threading.Event(), socket.create_server(("127.0.0.1", 0))

    def respond(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(10.0)
            connection.recv(65536)
            answer(connection, over)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                thread = threading.Thread(target=respond, args=(listener.accept()[0],))
                thread.start()
                threads.append(thread)

    threads: list[threading.Thread] = [threading.Thread(target=serve)]
    threads[0].start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in threads:
            thread.join()
