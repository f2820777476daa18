"""One safetensors file: tensors, and a JSON document in its header.

The file starts with the length of the header, 8 bytes, little-endian; then comes the header, JSON; then the numbers of
all tensors. The document stands as text in the header's `__metadata__`, beside the SHA-256 of document and tensors.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from torchnpn._files import open_plain_file, whole_file
from torchnpn.io import checks
from torchnpn.nn import physical_memory

LARGEST_HEADER = 16 * 2**20  # bytes
MOST_VALUES = 500_000  # in all of a header: each takes some hundred bytes, however few it has in the file
DEEPEST_DOCUMENT = 64  # objects and lists within each other
MOST_ELEMENTS = 2**48  # of a tensor: far above any memory, far below where its size in bytes overflows

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


class Header(NamedTuple):
    """What a file says of itself before its numbers."""

    document: dict[str, Any]
    digest: str  # SHA-256 of document and tensors, in hexadecimal digits
    shapes: dict[str, tuple[int, ...]]  # of the tensors, by name


def read_header(path: Path) -> Header:
    """What the file under `path` says of itself, its numbers unread; a ValueError if it is no such file."""
    with open_plain_file(path) as file:
        return _header(file)[0]


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The document and the tensors of the file under `path`; a ValueError if it is no such file, or damaged."""
    try:
        with open_plain_file(path) as file:
            header, text = _header(file)
            if file.seek(0, os.SEEK_END) > (physical_memory() or math.inf):
                raise MemoryError
            file.seek(0)  # the same open file: one that takes its place meanwhile is not mixed in
            tensors = safetensors.torch.load(file.read())
    except SafetensorError as error:
        raise ValueError(f"its header and its data do not agree ({error})") from error
    except MemoryError as error:
        raise ValueError("there is not enough memory to read it") from error
    if _digest(text, tensors) != header.digest:
        raise ValueError("its checksum is wrong: the file is damaged, or was edited")
    _check_numbers(tensors)
    return header.document, tensors


def write(path: Path, document: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Store document and tensors under `path`: a file that is whole, or not there.

    A ValueError says that a tensor holds NaN, or that there is too much to describe.
    """
    _check_numbers(tensors)
    text = json.dumps(document, allow_nan=False)
    metadata = {"format": "pt", "torchnpn": text, "sha256": _digest(text, tensors)}
    content = safetensors.torch.save(tensors, metadata)
    if (length := int.from_bytes(content[:8], "little")) > LARGEST_HEADER:
        raise ValueError(
            f"A model file has room for {LARGEST_HEADER} bytes of names, labels and categories, got {length} bytes. "
            "Leave out columns that have a category for nearly each row."
        )
    with whole_file(path) as file:
        file.write(content)


def _header(file: BinaryIO) -> tuple[Header, str]:
    """The checked header at the start of `file`, and its document as text."""
    start = file.read(8)
    available = file.seek(0, os.SEEK_END) - len(start)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(available, LARGEST_HEADER):
        raise ValueError(_foreign(start, length, available))
    file.seek(8)
    try:
        header = checks.mapping("its header", _parse("its header", file.read(length).decode()))
    except UnicodeDecodeError as error:
        raise ValueError("its header is not JSON in UTF-8") from error
    metadata = checks.mapping("its metadata", header.pop("__metadata__", {}))
    if not isinstance(text := metadata.get("torchnpn"), str):
        raise ValueError("it is a safetensors file, but not one of torchnpn. Read it with safetensors.torch.load_file")
    document = checks.mapping("its description", _parse("its description", text))
    sizes = {name: _size(f"tensor {checks.shown(name)}", entry) for name, entry in header.items()}
    if sum(sizes.values()) != available - length:
        raise ValueError(f"it should hold {sum(sizes.values())} bytes of numbers, got {available - length}: cut short?")
    shapes = {name: tuple(entry["shape"]) for name, entry in header.items()}
    return Header(document, checks.text("its checksum", metadata.get("sha256")), shapes), text


def _parse(name: str, text: str) -> Any:
    """JSON of bounded size and depth, all of whose numbers are finite, and whose objects have no key twice."""
    if sum(map(text.count, "[{,")) > MOST_VALUES:
        raise ValueError(f"{name} holds more than {MOST_VALUES} values")
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_finite, object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError(f"{name} is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"{name} is not JSON of finite numbers and different keys") from error
    level = [value]
    for _ in range(DEEPEST_DOCUMENT):
        lists = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list))]
        level = [one for several in lists for one in several]
    if level:
        raise ValueError(f"{name} is nested too deeply")
    return value


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is not finite")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _size(name: str, entry: Any) -> int:
    """Bytes that a tensor takes, by its entry in the header."""
    checks.with_keys(name, entry, ("dtype", "shape", "data_offsets"))
    dtype, shape = entry["dtype"], entry["shape"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"{name} should have a type among {', '.join(_DTYPES)}, got {checks.shown(dtype)}")
    whole = isinstance(shape, list) and all(type(one) is int and one >= 0 for one in shape)
    if not whole or len(shape) > checks.MOST_DIMENSIONS or math.prod(max(one, 1) for one in shape) > MOST_ELEMENTS:
        raise ValueError(f"{name} has the impossible shape {checks.shown(shape)}")
    elements: int = math.prod(shape)
    return elements * _DTYPES[dtype].itemsize


def _check_numbers(tensors: dict[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype not in _DTYPES.values():
            raise TypeError(f"{name} should have a type among {', '.join(_DTYPES)}, got {tensor.dtype}.")
        if tensor.is_floating_point() and bool(tensor.isnan().any()):
            raise ValueError(f"{name} holds NaN: did training diverge? Train anew with a smaller learning rate.")


def _foreign(start: bytes, length: int, available: int) -> str:
    """What to say of a file whose first eight bytes are not the length of a header."""
    if start.startswith(b"PK"):
        return "it is a zip archive, as torch.save and numpy.savez write, not a torchnpn model"
    if start[:1] == b"\x80" and start[1:2] in b"\x02\x03\x04\x05":
        return "it is a pickle, not a torchnpn model; pickles can run code and are never loaded"
    if len(start) == 8 and available < length <= LARGEST_HEADER:
        return f"it is cut short, or not a torchnpn model: its header should have {length} bytes, got {available}"
    return "it is not a torchnpn model, which is a safetensors file with a header of at most 16 MiB"


def _digest(text: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 of a document and of the names, types, shapes and numbers of tensors."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
