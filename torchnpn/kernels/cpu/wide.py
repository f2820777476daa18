"""Operations of a training step of a wide Gaussian chain with ReLU on a CPU, in torch (see `training.chain`).

Where products are large, what counts is how many there are and how much memory is touched. Each layer's variances
W_s = exp(2ℓ) lie where the gradient by ℓ will come, and the squares of its means where theirs will: a step holds little
more than parameters, gradients and Adam's averages. Where standard deviations are tied, W_s = r cᵀ is never formed. The
formulas are those of `kernels.cpu.linear`, `tied` and `relu`, and of `priors`; tests hold them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchnpn._torch import fused_adam_
from torchnpn.kernels.cpu import relu
from torchnpn.kernels.cpu.chain import Layer, Rows
from torchnpn.kernels.cpu.losses import LossGradient
from torchnpn.kernels.cpu.products import add_product_, product

Numbers = Any  # of numpy


class Input(NamedTuple):
    """What enters a layer."""

    mean: Tensor
    variance: Tensor | None

    @property
    def second(self) -> Tensor:
        """q = E a²."""
        square = self.mean * self.mean
        return square if self.variance is None else square.add_(self.variance)


class Gradient(NamedTuple):
    """By a mean and a variance, (batch, features)."""

    m: Tensor
    s: Tensor


class Rectified(NamedTuple):
    """max(0, x), and what its gradient needs."""

    a: Input
    known: list[Tensor]


class WideChain:
    """The operations of a step; gradients are left in the `.grad` of all parameters.

    Args:
        hidden: Layers with a ReLU after each.
        heads: Layers side by side at the end; only the first of them forms the features.
        own: The likelihood's parameters.
        prior: Precision of an isotropic Gaussian, "empirical" for `priors.EmpiricalBayes`, or None.
        rows: Gives the rows of the step under way.
        loss: Of these rows, for latent means and variances (batch, outputs).
    """

    row_losses: Numbers

    def __init__(
        self,
        hidden: Sequence[Layer],
        heads: Sequence[Layer],
        own: Sequence[Tensor],
        prior: float | str | None,
        rows: Callable[[], Rows],
        loss: Callable[[Numbers, Numbers, Rows], LossGradient],
    ) -> None:
        self.hidden, self._own, self._rows, self._loss = len(hidden), own, rows, loss
        layers = [*hidden, *heads]
        self._layers = [_layer(layer, prior, first=i == 0) for i, layer in enumerate(layers)]
        self.parts = [t for layer in layers for t in (layer.W_m, *layer.W_log_std, layer.b_m, layer.b_log_std)]
        self.parts += own
        self._averages = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self.parts]

    def averages(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Each parameter with Adam's averages of it."""
        return [(p, *both) for p, both in zip(self.parts, self._averages, strict=True)]

    # The operations, in the order of a step ----------------------------------------------------------------------

    def gather(self, dropout: bool) -> Input:
        """The rows of the step under way; such a chain has no dropout."""
        for layer in self._layers:
            layer.begin()
        self._now = self._rows()
        mean, variance = self._now.mean, self._now.variance
        return Input(torch.from_numpy(mean), None if variance is None else torch.from_numpy(variance))

    def moved(self, a: Input, shift: Tensor) -> Input:
        """Rows that are moved against their targets."""
        return Input(a.mean + shift, a.variance)

    def forward(self, i: int, a: Input, dropout: bool) -> Rectified:
        """Hidden layer i."""
        mean, variance, known = relu.forward(*self._layers[i].outputs(a))
        return Rectified(Input(mean, variance), [*known])

    def loss(self, a: Input, learning: bool) -> list[Gradient]:
        """The gradient of the loss by the outputs of each head."""
        heads = self._layers[self.hidden :]
        every = zip(*(head.outputs(a) for head in heads), strict=True)
        o_m, o_s = (torch.cat(parts, -1) if len(heads) > 1 else parts[0] for parts in every)
        found = self._loss(o_m.numpy(), o_s.numpy(), self._now)
        if learning:
            self.row_losses = found.rows
            for parameter, gradient in zip(self._own, found.by_parameters, strict=True):
                _gradient(parameter).copy_(torch.from_numpy(gradient).view_as(parameter))
        widths = [len(head.b_m) for head in heads]
        by_heads = (torch.from_numpy(np.ascontiguousarray(g)).split(widths, -1) for g in found[1:3])
        return [Gradient(*both) for both in zip(*by_heads, strict=True)]

    def input_gradient(
        self, i: int, g: Gradient | list[Gradient], a: Input, below: Rectified, dropout: bool
    ) -> Gradient:
        """From the gradient by the output of layer i to that by the output of the layer below, before its ReLU."""
        by_a = self._layers[i].by_input(g[0] if isinstance(g, list) else g, a)
        found = Gradient(*relu.backward(below.known, *by_a))
        below.known.clear()  # nobody asks again, and the memory is wanted
        return found

    def row_gradient(self, g: Gradient | list[Gradient], a: Input) -> Tensor:
        """The gradient by the means of the rows."""
        return self._layers[0].by_input(g[0] if isinstance(g, list) else g, a).m

    def update_(self, i: int, g: Gradient | list[Gradient], a: Input) -> None:
        """The gradient by the weights of layer i, that of kl_weight · KL included."""
        for layer, own in zip(self._layers[i:], g if isinstance(g, list) else [g], strict=False):
            layer.learn(a, own, float(self._now.kl_weight))

    def adam_(self, rate: float, correction: float, b1: float, b2: float, epsilon: float) -> None:
        """One step of Adam: see `kernels.step_`."""
        first, second = map(list, zip(*self._averages, strict=True))
        gradients = [_gradient(p) for p in self.parts]
        fused_adam_([p.detach() for p in self.parts], gradients, first, second, rate, correction, (b1, b2), epsilon)


class _Layer:
    """A linear layer: its outputs, and gradients into the `.grad` of its free tensors."""

    def __init__(self, layer: Layer, prior: float | str | None, first: bool) -> None:
        free = layer.W_m, *layer.W_log_std, layer.b_m, layer.b_log_std
        dims = [2] * (len(free) - 2) + [1, 1]  # without a single replica
        tensors = [p.detach().view(p.shape[p.dim() - n :]) for p, n in zip(free, dims, strict=True)]
        gradients = [_gradient(p).view(t.shape) for p, t in zip(free, tensors, strict=True)]
        self.W_m, *self.log_stds, self.b_m, self._b_log_std = tensors
        self.d_W_m, *self.d_log_stds, self._d_b_m, self._d_b_log_std = gradients
        self._prior, self._first = prior, first

    def begin(self) -> None:
        """Variances as they are in this step."""
        self.b_s = torch.exp(2 * self._b_log_std)

    def squares(self) -> Tensor:
        """W_m², where the gradient by W_m will come."""
        return torch.mul(self.W_m, self.W_m, out=self.d_W_m)

    def by_mean(self, a: Input, g: Gradient, shrink: Tensor | float) -> None:
        """The gradient by W_m: g_mᵀ a_m + 2 W_m ∘ (g_sᵀ a_s), and that of the KL."""
        if a.variance is None:
            self.d_W_m.copy_(product(g.m.T, a.mean.T))
        else:
            torch.mul(product(g.s.T, a.variance.T).mul_(2), self.W_m, out=self.d_W_m)
            add_product_(self.d_W_m, g.m.T, a.mean.T)
        _add_scaled_(self.d_W_m, self.W_m, shrink)

    def by_bias(self, g: Gradient, kl_weight: float) -> None:
        """The gradients by the biases."""
        precision = self._prior if isinstance(self._prior, float) else 1.0
        shrink = 0.0 if self._prior is None else kl_weight * precision
        torch.sum(g.m, 0, out=self._d_b_m).add_(self.b_m, alpha=shrink)
        torch.sum(g.s, 0, out=self._d_b_log_std).mul_(2).add_(shrink).mul_(self.b_s)
        if self._prior is not None:
            self._d_b_log_std.sub_(kl_weight)

    def precision(self, mean_variance: Callable[[tuple[int, ...]], Tensor]) -> Tensor | float:
        """λ of the weights, as `EmpiricalBayes.precision_of` has it; `mean_variance` is that over some dimensions."""
        if self._prior is None or isinstance(self._prior, float):
            return self._prior or 0.0
        over = (-2,) if self._first else (-2, -1)
        count = self.W_m.shape[-2] if self._first else self.W_m.numel()
        squares = torch.linalg.vector_norm(self.W_m, dim=over, keepdim=True).square_()
        found = 1 / (squares / count + mean_variance(over))
        return found if self._first else float(found)

    def outputs(self, a: Input) -> tuple[Tensor, Tensor]:
        """o_m and o_s."""
        raise NotImplementedError(f"{type(self).__name__} has no outputs.")

    def by_input(self, g: Gradient, a: Input) -> Gradient:
        """The gradient by the mean and the variance of what enters."""
        raise NotImplementedError(f"{type(self).__name__} has no gradient by its input.")

    def learn(self, a: Input, g: Gradient, kl_weight: float) -> None:
        """Leave the gradients by all free tensors, with that of kl_weight · KL."""
        raise NotImplementedError(f"{type(self).__name__} has no gradient by its weights.")


class _MeanField(_Layer):
    def begin(self) -> None:
        super().begin()
        self._W_s = torch.mul(self.log_stds[0], 2, out=self.d_log_stds[0]).exp_()

    def outputs(self, a: Input) -> tuple[Tensor, Tensor]:
        o_s = product(a.second, self._W_s, self.b_s)
        if a.variance is not None:
            add_product_(o_s, a.variance, self.squares())
        return product(a.mean, self.W_m, self.b_m), o_s

    def by_input(self, g: Gradient, a: Input) -> Gradient:
        v = product(g.s, self._W_s.T)
        by_m = add_product_((a.mean * v).mul_(2), g.m, self.W_m.T)
        return Gradient(by_m, add_product_(v, g.s, self.squares().T))

    def learn(self, a: Input, g: Gradient, kl_weight: float) -> None:
        W_s = self._W_s
        shrink = kl_weight * self.precision(lambda over: W_s.mean(over, keepdim=True))
        self.by_mean(a, g, shrink)
        W_s.mul_(product(g.s.T, a.second.T).mul_(2).add_(shrink))  # from here on the gradient by ℓ
        if self._prior is not None:
            W_s.sub_(kl_weight)
        self.by_bias(g, kl_weight)


class _Tied(_Layer):
    """W_s = r cᵀ; letters as in `kernels.cpu.tied`."""

    def begin(self) -> None:
        super().begin()
        self._r, self._c = (torch.exp(2 * log_std) for log_std in self.log_stds)  # (out, 1), (1, in)

    def outputs(self, a: Input) -> tuple[Tensor, Tensor]:
        o_s = torch.addmm(self.b_s, a.second @ self._c.T, self._r.T)
        if a.variance is not None:
            add_product_(o_s, a.variance, self.squares())
        return product(a.mean, self.W_m, self.b_m), o_s

    def by_input(self, g: Gradient, a: Input) -> Gradient:
        by_q = (g.s @ self._r) * self._c
        by_m = add_product_((a.mean * by_q).mul_(2), g.m, self.W_m.T)
        return Gradient(by_m, add_product_(by_q, g.s, self.squares().T))

    def learn(self, a: Input, g: Gradient, kl_weight: float) -> None:
        r, c, q = self._r, self._c, a.second
        shrink = kl_weight * self.precision(lambda over: r.mean() * (c.mean() if -1 in over else c))
        self.by_mean(a, g, shrink)
        (n_out, n_in), priced = self.W_m.shape, 0.0 if self._prior is None else kl_weight
        d_r, d_c = self.d_log_stds
        torch.mm(g.s.T, q @ c.T, out=d_r).mul_(2).add_((c * shrink).sum()).mul_(r).sub_(n_in * priced)
        torch.mm((g.s @ r).T, q, out=d_c).mul_(2).add_(r.sum() * shrink).mul_(c).sub_(n_out * priced)
        self.by_bias(g, kl_weight)


def _layer(layer: Layer, prior: float | str | None, first: bool) -> _Layer:
    return (_Tied if len(layer.W_log_std) > 1 else _MeanField)(layer, prior, first)


def _gradient(parameter: Tensor) -> Tensor:
    """Its `.grad`, always in the same memory."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _add_scaled_(total: Tensor, x: Tensor, scale: Tensor | float) -> None:
    """total + scale · x."""
    if isinstance(scale, Tensor):
        total.addcmul_(x, scale)
    elif scale:
        total.add_(x, alpha=scale)
