"""Where layers that draw random numbers take them from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_source: ContextVar[torch.Generator | None] = ContextVar("source of random numbers", default=None)


@contextmanager
def drawing_from(generator: torch.Generator | None) -> Iterator[None]:
    """Layers draw from `generator` for a while, in this thread alone; `train` does this with one of its own.

    Elsewhere, or with None, they draw from torch's global random state, as torch's own layers do.
    """
    token = _source.set(generator)
    try:
        yield
    finally:
        _source.reset(token)


def dropout_mask(like: Tensor, p: float) -> Tensor:
    """0 with probability p, else 1/(1 - p), for each number of `like`."""
    if torch.compiler.is_compiling() or (generator := _source.get()) is None:
        return torch.nn.functional.dropout(torch.ones_like(like), p)
    return torch.empty_like(like).bernoulli_(1 - p, generator=generator).div_(1 - p)
