"""Networks with very many outputs: the last layer and the loss for some outputs at a time.

The loss of a row is a sum over its targets, so it can be summed up part by part. What each row counts in the loss of
the batch is known beforehand; therefore a part's gradients are computed right after the part, and nothing else of it is
kept: memory does not grow with the number of outputs. Sparse targets become dense part by part, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from torchnpn._torch import has_hooks
from torchnpn.likelihoods import Likelihood
from torchnpn.moments import Moments
from torchnpn.nn import Linear, Sequential
from torchnpn.sparse import SparseBatch
from torchnpn.training.data import Batch

WIDE = 4_096  # outputs; below, the whole is small
_NUMBERS = 2**19  # in a tensor (*replicas, batch, outputs at a time): 2 MB, and a step has ten of them
_NUMBERS_ON_GPU = 2**23  # there a part has to be worth its launches
_LEAST = 256  # outputs at a time


class WeightedLoss(NamedTuple):
    total: Tensor  # Σ share · loss over rows and replicas: what to differentiate
    rows: Tensor  # (*replicas, batch): loss of each row, to be read


def weighted_loss(model: Any, likelihood: Likelihood, batch: Batch, share: Tensor) -> WeightedLoss:
    """The loss of a batch in training; in parts where the network is wide, with the same gradients.

    Args:
        model: The network as it is called, perhaps compiled; only one that is not compiled is taken apart.
        likelihood: Of the targets.
        batch: Inputs and targets; sparse targets that cannot be taken in parts are made dense.
        share: (batch,) or (*replicas, batch), of each row in the loss.
    """
    if is_wide(model, likelihood, batch):
        return wide_loss(model[:-1](batch.x), model[-1], likelihood, batch.y, share)
    rows = likelihood.loss(model(batch.x), _targets(batch.y))
    return WeightedLoss((rows * share).sum(), rows.detach())


def row_loss(model: Any, likelihood: Likelihood, batch: Batch) -> Tensor:  # (*replicas, batch)
    """`likelihood.loss(model(x), y)`, in parts where the network is wide: for evaluation, without gradients."""
    if not is_wide(model, likelihood, batch):
        return likelihood.loss(model(batch.x), _targets(batch.y))
    a, head = model[:-1](batch.x), _Head(model[-1], likelihood)
    known, parameters = [part for part in a if part is not None], [*head.parameters()]
    return sum(  # type: ignore[return-value]
        head.loss(known, head.select(parameters, *ends), _targets(batch.y, *ends))
        for ends in _ends(head.outputs, _chunk(a, model[-1]))
    )


def is_wide(model: Any, likelihood: Likelihood, batch: Batch) -> bool:
    """Whether the last layer of a network is wide, and the likelihood's loss a sum over its outputs."""
    return (
        type(model) is Sequential
        and len(model) > 1
        and type(model[-1]) is Linear
        and model[-1].out_features >= WIDE
        and likelihood.separable
        and batch.y.shape[-1] == model[-1].out_features
        and not has_hooks(model)
    )


def wide_loss(
    a: Moments, layer: Linear, likelihood: Likelihood, y: Tensor | SparseBatch, share: Tensor, chunk: int | None = None
) -> WeightedLoss:
    """Loss `likelihood.loss(layer(a), y)` of each row, and its sum weighted by `share`, which is once differentiable.

    Args:
        a: Input of the layer, (*replicas, batch, in_features).
        layer: The last of a network.
        likelihood: One that is `separable`.
        y: Targets (batch, targets), one for each output.
        share: (batch,) or (*replicas, batch), of each row in the sum.
        chunk: Outputs at a time; by default as many as fill a tensor of 2 MB, or on a GPU of 32 MB.
    """
    head, known = _Head(layer, likelihood), [part for part in a if part is not None]
    chunk = _chunk(a, layer) if chunk is None else chunk
    return WeightedLoss(*_Chunks.apply(head, y, share, chunk, len(known), *known, *head.parameters()))


class _Head(nn.Module):
    """The last layer and the loss, which can be had for some of the outputs."""

    def __init__(self, layer: Linear, likelihood: Likelihood) -> None:
        super().__init__()
        self.layer, self.likelihood, self.outputs = layer, likelihood, layer.out_features
        self.names = [name for name, _ in self.named_parameters()]

    def forward(self, a: Moments, y: Tensor) -> Tensor:
        return self.likelihood.loss(self.layer(a), y)

    def select(self, parameters: Sequence[Tensor], start: int, stop: int) -> list[Tensor]:
        """The part of each parameter that belongs to the outputs from `start` to `stop` - 1; all of a shared one."""
        parts = []
        for name, parameter in zip(self.names, parameters, strict=True):
            dim = -2 if name.startswith("layer.weight.") else -1
            own = parameter.shape[dim] == self.outputs
            parts.append(parameter.narrow(dim, start, stop - start) if own else parameter)
        return parts

    def loss(self, a: Sequence[Tensor], parameters: Sequence[Tensor], y: Tensor) -> Tensor:
        """With these parameters in place of its own."""
        loss: Tensor = functional_call(self, dict(zip(self.names, parameters, strict=True)), (Moments(*a), y))
        return loss


class _Chunks(torch.autograd.Function):
    """Arguments: head, y, share, outputs at a time, how many tensors `a` has (1 or 2), these, and the parameters."""

    @staticmethod
    def forward(
        ctx: Any, head: _Head, y: Tensor | SparseBatch, share: Tensor, chunk: int, n: int, *tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        needs = ctx.needs_input_grad[5:]
        gradients = [torch.zeros_like(t) if need else t for t, need in zip(tensors, needs, strict=True)]
        losses = []
        for ends in _ends(head.outputs, chunk):
            parts = [*tensors[:n], *head.select(tensors[n:], *ends)]
            leaves = [part.detach().requires_grad_(need) for part, need in zip(parts, needs, strict=True)]
            with torch.enable_grad():
                loss = head.loss(leaves[:n], leaves[n:], _targets(y, *ends))
            wanted = list(itertools.compress(leaves, needs))
            found = torch.autograd.grad(loss, wanted, share.expand_as(loss).to(loss.dtype), materialize_grads=True)
            places = itertools.compress([*gradients[:n], *head.select(gradients[n:], *ends)], needs)
            for place, gradient in zip(places, found, strict=True):
                place.add_(gradient)
            losses.append(loss.detach())
        ctx.gradients = [gradient if need else None for gradient, need in zip(gradients, needs, strict=True)]
        rows = torch.stack(losses).sum(0)
        ctx.mark_non_differentiable(rows)
        return (rows * share).sum(), rows

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            raise RuntimeError("wide_loss keeps its gradients for one backward pass, and this is the second.")
        return *[None] * 5, *(None if gradient is None else gradient.mul_(g) for gradient in gradients)


def _chunk(a: Moments, layer: Linear) -> int:
    """Outputs at a time."""
    rows: int = torch.broadcast_shapes(layer.replicas, a.mean.shape[:-2]).numel() * a.mean.shape[-2]
    return max(_LEAST, (_NUMBERS_ON_GPU if a.mean.is_cuda else _NUMBERS) // rows)


def _ends(outputs: int, chunk: int) -> Iterator[tuple[int, int]]:
    for start in range(0, outputs, chunk):
        yield start, min(start + chunk, outputs)


def _targets(y: Tensor | SparseBatch, start: int | None = None, stop: int | None = None) -> Tensor:
    """Targets, or some columns of them, dense."""
    if not isinstance(y, SparseBatch):
        return y if start is None else y[..., start:stop]
    return y.dense() if start is None or stop is None else y.part(start, stop)
