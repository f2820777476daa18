"""Downloads from servers that lie: each ends in a clear error, in time, and neither memory nor disk fills up."""

from __future__ import annotations

import hashlib
import io
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.fuzzing import generator, rounds
from support.lying_servers import BODY, CHUNKED, LIES, lying, sends, with_length
from support.served import ARRAYS, TINY, empty_cache, files

from torchnpn import datasets
from torchnpn.datasets import catalogue, store, uci
from torchnpn.datasets.dataset import Original
from torchnpn.datasets.download import MOST_BYTES, Clock, DownloadError, Patience, download

SHA256 = hashlib.sha256(BODY).hexdigest()
SHORT = Patience(total=2.0, silence=0.3, window=0.2, least=1_000)  # a lie is waited for no longer than this


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    return empty_cache(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_a_clear_error(name, record_property):
    record_property("inputs", 1)
    tracemalloc.start()
    try:
        with lying(LIES[name]) as url, pytest.raises(DownloadError) as caught:
            download(url, SHA256, most=100_000, clock=Clock(SHORT))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    words = str(caught.value)
    assert 20 < len(words) < 500
    assert url.rstrip("/") in words or "Only addresses with http" in words


@pytest.mark.parametrize("name", ["endless body", "slow body", "silence", "redirection to a file", "a page", "garbage"])
def test_a_data_set_from_a_liar_leaves_nothing(name, cache, monkeypatch):
    with lying(LIES[name]) as url:
        monkeypatch.setitem(catalogue.SOURCES, "tiny", uci.source(TINY, url.rstrip("/")))
        with pytest.raises(DownloadError, match=r"tiny\.npz.*TORCHNPN_DATA"):
            datasets.fetch("tiny", patience=SHORT)
    assert files(cache) == []


@pytest.mark.parametrize(
    "answer",
    [
        sends(with_length(len(BODY))),
        sends(b"HTTP/1.0 200 OK\r\n\r\n", BODY),
        sends(CHUNKED, b"5\r\n", BODY[:5], b"\r\n7\r\n", BODY[5:], b"\r\n0\r\n\r\n"),
        sends(b"HTTP/1.1 100 Continue\r\n\r\n", with_length(len(BODY))),
    ],
    ids=["length", "no length", "chunks", "continue"],
)  # fmt: skip
def test_an_honest_server_is_believed(answer):
    told = []
    with lying(answer) as url:
        assert download(url, SHA256, lambda *numbers: told.append(numbers), most=len(BODY)) == BODY
        with pytest.raises(DownloadError, match=f"too large: at most {len(BODY) - 1} bytes"):
            download(url, SHA256, most=len(BODY) - 1)
    assert told[-1][0] == len(BODY)


def test_redirections_are_followed():
    with lying(sends(with_length(len(BODY)))) as url, lying(LIES["not found"]) as other:
        assert other != url
        moved = f"HTTP/1.1 301 Moved\r\nLocation: {url}x\r\nContent-Length: 0\r\n\r\n".encode()
        with lying(sends(moved)) as first:
            assert download(first, SHA256, most=1000) == BODY


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "data:,x", "/etc/passwd", "", "javascript:1"])
def test_only_the_web_is_asked(url):
    with pytest.raises(DownloadError, match="Only addresses with http"):
        download(url)


def test_all_files_of_a_set_share_one_time():
    clock = Clock(Patience(total=-1.0))
    with lying(sends(with_length(len(BODY)))) as url, pytest.raises(DownloadError, match="took too long"):
        download(url, SHA256, clock=clock)


@pytest.mark.parametrize("seconds", ["soon", "-1", "0", "nan", "inf", ""])
def test_the_variable_for_the_time_is_checked(seconds, monkeypatch):
    monkeypatch.setenv("TORCHNPN_DOWNLOAD_SECONDS", seconds)
    with pytest.raises(ValueError, match="expects a number of seconds above 0"):
        Patience.usual()
    monkeypatch.setenv("TORCHNPN_DOWNLOAD_SECONDS", "5")
    assert Patience.usual().total == 5.0


def test_every_file_has_a_recorded_size():
    originals = [original for source in catalogue.SOURCES.values() for original in source.originals]
    assert originals
    assert all(0 < original.most < 64 << 20 for original in originals)
    assert Original("a", "http://x").most == MOST_BYTES


ODD = [
    b"nan\n",
    b"inf\n",
    b"-1\n",
    b"1e300\n",
    b"",
    b"\n\n",
    b"1 2\n3\n",
    b"9" * 5000,
    b"\xff\xfe",
    b"0x1\n",
    b"1,5\n",
    b"#",
]


def test_whatever_a_server_sends_is_refused_in_words(cache, monkeypatch, record_property):
    """Numbers that are none, and random bytes, with the sum that is expected of them."""
    chance, tried = generator("originals"), rounds(30)
    record_property("inputs", tried)
    for i in range(tried):
        body = ODD[i] if i < len(ODD) else chance.bytes(chance.integers(1, 60))
        with lying(sends(with_length(len(body), body))) as url:
            table = TINY._replace(sha256=hashlib.sha256(body).hexdigest())
            monkeypatch.setitem(catalogue.SOURCES, "tiny", uci.source(table, url.rstrip("/")))
            with pytest.raises(DownloadError, match=r"are not as expected|have changed"):
                datasets.fetch("tiny")
    assert files(cache) == []


# Archives that are larger than they look --------------------------------------------------------------------------


def npz(entries: list[tuple[str, bytes]], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return file.getvalue()


def npy(header: str, numbers: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header.encode() + numbers


def says(shape: object, kind: str = "<f8") -> bytes:
    return npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}\n", bytes(80))


def declared(size: int) -> bytes:
    """An archive whose only entry says that it has `size` bytes."""
    content = npz([("X.npy", says((10,)))])
    place = content.rfind(b"PK\x01\x02")
    return content[: place + 24] + struct.pack("<I", size) + content[place + 28 :]


BOMBS = {
    "zeros": lambda: npz([("X.npy", bytes(10**8))]),
    "many zeros": lambda: npz([(f"{i}.npy", bytes(10**7)) for i in range(20)]),
    "bzip2": lambda: npz([("X.npy", bytes(10**8))], zipfile.ZIP_BZIP2),
    "lzma": lambda: npz([("X.npy", bytes(10**8))], zipfile.ZIP_LZMA),
    "declared too small": lambda: declared(5),
    "declared too large": lambda: declared(2**31),
    "many entries": lambda: npz([(f"{i}.npy", b"") for i in range(2000)]),
    "shape": lambda: npz([("X.npy", says((10**12,)))]),
    "negative shape": lambda: npz([("X.npy", says((-10, -1)))]),
    "shape of text": lambda: npz([("X.npy", says("('a',)"))]),
    "shape of floats": lambda: npz([("X.npy", says((10.0,)))]),
    "shape beyond integers": lambda: npz([("X.npy", says((2**62, 2**62, 0)))]),
    "wide type": lambda: npz([("X.npy", says((1,), "<U1000000000"))]),
    "type of arrays": lambda: npz([("X.npy", says((1,), "(1000,500000)i4"))]),
    "objects": lambda: npz([("X.npy", says((10,), "O"))]),
    "no type": lambda: npz([("X.npy", says((10,), "nothing"))]),
    "deep header": lambda: npz([("X.npy", npy("(" * 9000))]),
    "header of code": lambda: npz([("X.npy", npy("__import__('os').system('true')"))]),
    "third version": lambda: npz([("X.npy", npy("", version=b"\x03\x00"))]),
    "pickle": lambda: npz([("X.npy", b"\x80\x04K\x01.")]),
    "no archive": lambda: b"PK\x05\x06" + bytes(18)[:10],
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_it_is_expanded(name, tmp_path, record_property):
    record_property("inputs", 1)
    (path := tmp_path / "bomb.npz").write_bytes(BOMBS[name]())
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"is damaged, or no \.npz file") as caught:
            store.read(path)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000 + 10 * path.stat().st_size
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 700


def test_damaged_archives(tmp_path, record_property):
    """Random changes: refused, or nothing but the same values."""
    chance, tried = generator("archives"), rounds(300)
    record_property("inputs", tried)
    store.write(path := tmp_path / "a.npz", ARRAYS)
    whole = path.read_bytes()
    for _ in range(tried):
        content = bytearray(whole)
        for _ in range(chance.integers(1, 4)):
            start = chance.integers(len(content))
            content[start : start + chance.integers(4)] = chance.bytes(chance.integers(4))
        path.write_bytes(bytes(content))
        try:
            arrays = store.read(path)
        except ValueError:
            continue
        for name in arrays.keys() & ARRAYS.keys():
            np.testing.assert_array_equal(arrays[name], ARRAYS[name])
