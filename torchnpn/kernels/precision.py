"""In what precision matrix products are taken on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

NAMES = ("fast", "float32")
_asked: ContextVar[str | None] = ContextVar("precision", default=None)


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Products on a GPU in the given precision, for a while; `train` does this with `Recipe.precision`.

    "fast" takes the means' product in tf32 and the variances' products, whose terms are all ≥ 0, in bfloat16; sums are
    float32. "float32" takes everything in float32. Elsewhere torch's own switch decides
    (`torch.set_float32_matmul_precision`), which is "float32" unless changed. On a CPU nothing depends on it.
    """
    token = _asked.set(checked_precision(name))
    try:
        yield
    finally:
        _asked.reset(token)


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """The vendor's float32 products on a GPU in tf32 or not, for a while."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def current() -> str:
    """The precision that holds now."""
    return _asked.get() or ("float32" if torch.get_float32_matmul_precision() == "highest" else "fast")


def checked_precision(name: str) -> str:
    if name not in NAMES:
        raise ValueError(f"precision expects one of {', '.join(NAMES)}, got {name!r}.")
    return name
