"""Model files made by hand, as docs/model-files.md describes them."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import pytest
import torch

from torchnpn import io
from torchnpn.io import ModelFileError


def packed(document: object, tensors: dict[str, torch.Tensor], **header: object) -> bytes:
    """A model file made by hand, as docs/model-files.md describes it; `header` adds to or replaces entries."""
    text = document if isinstance(document, str) else json.dumps(document)
    kinds = {torch.float64: "F64", torch.float32: "F32", torch.int32: "I32", torch.int64: "I64"}
    digest, entries, data = hashlib.sha256(text.encode(errors="surrogatepass")), {}, b""
    for name, tensor in sorted(tensors.items()):
        numbers = tensor.numpy().tobytes()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode() + numbers)
        offsets = [len(data), len(data) + len(numbers)]
        entries[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        data += numbers
    metadata = {"torchnpn": text, "sha256": digest.hexdigest()}
    start = json.dumps({"__metadata__": metadata, **entries, **header}).encode()
    return struct.pack("<Q", len(start)) + start + data


LINEAR = {"type": "Linear", "in_features": 2, "out_features": 1, "bias": False, "family": "gaussian", "replicas": []}
MULTIPLYING = {  # 1,000 weights each, and each multiplies what the one before gives
    name: {**LINEAR, "in_features": 1, "replicas": replicas}
    for name, replicas in {"a": [1000, 1, 1], "b": [1, 1000, 1], "c": [1, 1, 1000]}.items()
}
WEIGHTS = {"weight.mean": torch.ones(1, 2), "weight.log_std": torch.zeros(1, 2)}


def document(**changed: object) -> dict[str, object]:
    plain = {"format_version": 1, "saved": "2026-01-01T00:00:00+00:00", "versions": {"torch": "2"}, "object": LINEAR}
    return {**plain, **changed}


def made(description: dict[str, object]) -> dict[str, object]:
    return document(object=description)


def chain(**layers: object) -> dict[str, object]:
    return made({"type": "Sequential", "layers": layers})


def of(**changed: object) -> dict[str, object]:
    return made({**LINEAR, **changed})


def refused(content: bytes, words: str, tmp_path: Path) -> None:
    (path := tmp_path / "hostile.npn").write_bytes(content)
    with pytest.raises(ModelFileError, match=words) as caught:
        io.load(path)
    assert str(caught.value).startswith(f"Cannot load {path}: ")
    assert len(str(caught.value)) < 1000
    try:
        io.describe(path)  # may take it, since it looks at less, but fails in no other way
    except ModelFileError:
        pass
