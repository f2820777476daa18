"""Adversarial training: rows are moved against their targets, and learnt from there (Goodfellow et al. 2015).

x' = x + r g / |g| with g = ∂ loss / ∂ x is, to first order, the worst point of a ball of radius r around a row. The
network is asked for g without dropout. Of uncertain inputs the means are moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torchnpn.likelihoods import Likelihood
from torchnpn.moments import Moments
from torchnpn.nn import count_replicas
from torchnpn.training.data import Batch
from torchnpn.training.wide import row_loss


def adversarial_rows(loss: Callable[[Tensor], Tensor], x: Tensor, radius: float | Tensor) -> Tensor:
    """Each row of x, moved by `radius` to where its loss is larger; `loss` gives one for each row."""
    with torch.enable_grad():
        at = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(loss(at).sum(), at)
    return x + step_along(g, radius)


def step_along(g: Tensor, radius: float | Tensor) -> Tensor:
    """Steps of the length `radius` along the rows of g, however small; none along a row of zeros."""
    least = torch.finfo(g.dtype).tiny
    g = g / g.abs().amax(-1, keepdim=True).clamp_min(least)  # the squares of a sure network's gradient underflow
    length: Tensor = torch.linalg.vector_norm(g, dim=-1, keepdim=True)
    return radius * g / length.clamp_min(least)


class Adversary:
    """Moves the rows of a batch against a network; each of its replicas has an adversary of its own."""

    def __init__(self, model: nn.Module, likelihood: Likelihood, radius: Any) -> None:
        self.model, self.likelihood, self.replicas = model, likelihood, count_replicas(model)
        self.radius = radius_per_replica(radius, self.replicas, next(model.parameters()))

    def __call__(self, batch: Batch) -> Batch:
        x = batch.x if isinstance(batch.x, Moments) else Moments(batch.x)
        check_dense(x.mean)
        mean = x.mean.expand(self.replicas, *x.mean.shape) if self.replicas > 1 and x.mean.dim() == 2 else x.mean

        def loss(mean: Tensor) -> Tensor:
            return row_loss(self.model, self.likelihood, batch._replace(x=x._replace(mean=mean)))

        assert self.radius is not None
        with _without_dropout(self.model):
            mean = adversarial_rows(loss, mean, self.radius)
        return batch._replace(x=x._replace(mean=mean) if isinstance(batch.x, Moments) else mean)


def radius_per_replica(radius: Any, replicas: int, like: Tensor) -> Tensor | None:  # (replicas, 1, 1), or (1, 1)
    """`Recipe.adversarial` as a tensor beside another; None where no row is moved."""
    if not np.any(radius):
        return None
    given = torch.as_tensor(radius, dtype=like.dtype, device=like.device)
    if given.shape not in ((), (replicas,)):
        raise ValueError(
            f"Recipe expects one adversarial radius, or {replicas}, one for each replica of the network, "
            f"got {tuple(given.shape)}."
        )
    return given.expand(replicas).reshape(*([replicas] if replicas > 1 else []), 1, 1)


def check_dense(x: Any) -> None:
    """Raise for inputs that an adversary would fill up."""
    if not isinstance(x, (Tensor, Moments)):
        raise ValueError("adversarial needs dense inputs, got sparse ones. Give it x.toarray().")


@contextmanager
def _without_dropout(model: nn.Module) -> Iterator[None]:
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)
