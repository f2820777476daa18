"""Memory for a moment: one buffer a thread, because fresh memory as large as the weights costs more than filling it."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

_local = threading.local()


def scratch(like: Tensor) -> Tensor:
    """An uninitialised tensor of the shape and type of `like`, valid until the next call in this thread."""
    if like.device.type != "cpu":
        return torch.empty_like(like)
    buffer: Tensor | None = getattr(_local, "buffer", None)
    if buffer is None or buffer.numel() < like.numel() or buffer.dtype != like.dtype:
        with torch.inference_mode(False):
            buffer = _local.buffer = torch.empty(like.numel(), dtype=like.dtype)
    return buffer[: like.numel()].view(like.shape)
