"""Operations of a training step of a small Gaussian chain with ReLU, in numpy (see `training.chain`).

A step of fifty hidden units computes for a tenth of a millisecond; the same calls in torch take 1.7 times as long, and
with a tape ten times. All free numbers of network and likelihood lie in one flat array, means first, then log standard
deviations, so that a step is a hundred calls of numpy. Replicas lie along a leading dimension of all arrays; a
step of twenty networks takes five times as long as that of one. Where standard deviations of weights are tied, all of
them are written out at the beginning of a step, and gradients by them summed at its end: what a product fewer saves in
so small a network, more calls would cost. The formulas are those of `kernels.cpu.linear`, `kernels.cpu.relu` and
`priors`, and tests hold them together.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from torchnpn._torch import fused_adam_
from torchnpn.kernels.cpu.losses import LossGradient

Array = NDArray[Any]  # of float32


class Layer(NamedTuple):
    """The free tensors of a linear layer."""

    W_m: Tensor  # (*replicas, out, in)
    W_log_std: Sequence[Tensor]  # one of that shape; or, tied, (*replicas, out, 1) and (*replicas, 1, in)
    b_m: Tensor  # (*replicas, out)
    b_log_std: Tensor


class Rows(NamedTuple):
    """The rows of a step, (*replicas, batch, …)."""

    mean: Array
    variance: Array | None
    targets: Array
    share: Array  # of each row in the loss
    kl_weight: float | Array  # β/N of the step, or one for each replica


class Input(NamedTuple):
    """What enters a layer."""

    mean: Array
    variance: Array | None
    second: Array  # E a²


class Gradient(NamedTuple):
    """By a mean and a variance, (*replicas, batch, features)."""

    m: Array
    s: Array


class Rectified(NamedTuple):
    """max(0, x), and what its gradient needs; letters as in `kernels.cpu.relu`."""

    a: Input
    above: Array  # P(x > 0)
    slope: Array  # 2 ∂a_m/∂s
    curve: Array  # ∂a_s/∂s


class NumpyChain:
    """All free numbers of a chain and its likelihood in one flat parameter, and the operations of a step on them.

    The modules' own parameters become views of the flat one until `release`.

    Args:
        hidden: Layers with a ReLU after each.
        heads: Layers side by side at the end; only the first of them forms the features.
        own: The likelihood's parameters.
        prior: Precision of an isotropic Gaussian, "empirical" for `priors.EmpiricalBayes`, or None.
        rows: Gives the rows of the step under way.
        loss: Of these rows, for latent means and variances (*replicas, batch, outputs).
    """

    def __init__(
        self,
        hidden: Sequence[Layer],
        heads: Sequence[Layer],
        own: Sequence[Tensor],
        prior: float | str | None,
        rows: Callable[[], Rows],
        loss: Callable[[Array, Array, Rows], LossGradient],
    ) -> None:
        layers = [*hidden, *heads]
        self.hidden, self.prior, self._rows, self._loss = len(hidden), prior, rows, loss
        ends = [0, *itertools.accumulate(layer.b_m.shape[-1] for layer in heads)]
        self._columns = [slice(*pair) for pair in itertools.pairwise(ends)]  # of each head, among the outputs
        means = [t for layer in layers for t in (layer.W_m, layer.b_m)]
        log_stds = [t for layer in layers for t in (*layer.W_log_std, layer.b_log_std)]
        self.parts = [*means, *log_stds, *own]
        self._size, self._free_stds = sum(t.numel() for t in means), sum(t.numel() for t in log_stds)
        replicas = layers[0].b_m.shape[:-1].numel()
        self.replica = np.concatenate([np.arange(p.numel()) // (p.numel() // replicas) for p in self.parts])
        self.flat = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in self.parts]))
        self.flat.grad = torch.zeros_like(self.flat)
        for parameter, view in zip(self.parts, self.flat.detach().split(self._sizes), strict=True):
            parameter.data = view.view(parameter.shape)
        shapes = [tuple(layer.W_m.shape) for layer in layers]
        self._s, self._squares, self._shrink = (_Flat(np.ones(self._size, np.float32), shapes) for _ in range(3))
        self._tied = any(len(layer.W_log_std) > 1 for layer in layers)
        numbers, gradient = self.flat.detach().numpy(), self.flat.grad.numpy()
        (self._m, self._log_std, _), (self._d_m, self._d_s, self._d_own) = (
            self._split(flat, shapes) for flat in (numbers, gradient)
        )
        self._factors, self._d_factors = (
            _factors(flat[self._size :], layers) if self._tied else [] for flat in (numbers, gradient)
        )
        self.first, self.second = (torch.zeros_like(self.flat.detach()) for _ in range(2))  # Adam's averages

    @property
    def _sizes(self) -> list[int]:
        return [p.numel() for p in self.parts]

    def _split(self, flat: Array, shapes: Sequence[tuple[int, ...]]) -> tuple[_Flat, _Flat, Array]:
        """Means, log standard deviations of all weights, and the likelihood's numbers."""
        n, end = self._size, self._size + self._free_stds
        log_stds = np.empty(n, np.float32) if self._tied else flat[n:end]
        return _Flat(flat[:n], shapes), _Flat(log_stds, shapes), flat[end:]

    def _fill_moments(self) -> None:
        """m², and s = exp(2ℓ), with ℓ_ij = ℓ_i + ℓ_j where it is tied."""
        np.square(self._m.flat, out=self._squares.flat)
        for (*factors, bias), whole in zip(self._factors, self._log_std.layers, strict=self._tied):
            np.copyto(whole.W, functools.reduce(np.add, factors))
            np.copyto(whole.b, bias)
        np.exp(np.multiply(self._log_std.flat, 2, out=self._s.flat), out=self._s.flat)

    def _sum_by_factors(self) -> None:
        """The gradient by ℓ_i from that by ℓ_ij, and likewise by ℓ_j."""
        for (*factors, bias), whole in zip(self._d_factors, self._d_s.layers, strict=self._tied):
            for factor, over in zip(factors, _OTHERS[len(factors)], strict=True):
                np.add.reduce(whole.W, over, keepdims=True, out=factor)
            np.copyto(bias, whole.b)

    def release(self) -> None:
        """Give each module its own memory back."""
        for parameter in self.parts:
            parameter.data = parameter.data.clone()

    def averages(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Each parameter with Adam's averages of it, in the same memory."""
        both = (flat.split(self._sizes) for flat in (self.first, self.second))
        return [(p, m.view(p.shape), v.view(p.shape)) for p, m, v in zip(self.parts, *both, strict=True)]

    # The operations, in the order of a step ----------------------------------------------------------------------

    def gather(self, dropout: bool) -> Input:
        """The rows of the step under way; such a chain has no dropout."""
        self._fill_moments()
        self._now = self._rows()
        return _input(self._now.mean, self._now.variance)

    def moved(self, a: Input, shift: Tensor) -> Input:
        """Rows that are moved against their targets."""
        return _input(a.mean + shift.numpy(), a.variance)

    def forward(self, i: int, a: Input, dropout: bool) -> Rectified:
        """Hidden layer i."""
        return _relu(*self._linear(i, a))

    def loss(self, a: Input, learning: bool) -> Gradient:
        """The outputs of all heads, and the gradient of their loss."""
        outputs = [self._linear(i, a) for i in range(self.hidden, self.hidden + len(self._columns))]
        o_m, o_s = outputs[0] if len(outputs) == 1 else (np.concatenate(x, -1) for x in zip(*outputs, strict=True))
        found = self._loss(o_m, o_s, self._now)
        if learning:
            self.row_losses = found.rows
            if found.by_parameters:
                np.concatenate([part.reshape(-1) for part in found.by_parameters], out=self._d_own)
        return Gradient(found.by_mean, found.by_variance)

    def input_gradient(self, i: int, g: Gradient, a: Input, below: Rectified, dropout: bool) -> Gradient:
        """From the gradient by the output of layer i to that by the output of the layer below, before its ReLU."""
        return _relu_gradient(below, self._by_input(i, g, a))

    def row_gradient(self, g: Gradient, a: Input) -> Tensor:
        """The gradient by the means of the rows."""
        return torch.from_numpy(self._by_input(0, g, a).m)

    def update_(self, i: int, g: Gradient, a: Input) -> None:
        """The gradient by the weights of layer i; `finish_gradient` and Adam use it later."""
        if i < self.hidden:
            self._weight_gradient(i, a, g.m, g.s)
            return
        for k, columns in enumerate(self._columns, self.hidden):
            self._weight_gradient(k, a, g.m[..., columns], g.s[..., columns])

    def finish_gradient(self) -> None:
        """Add that of kl_weight · KL, and go on from s to ℓ, where s = exp(2ℓ)."""
        m, s, d_m, d_s = self._m.flat, self._s.flat, self._d_m.flat, self._d_s.flat
        d_s *= 2
        if self.prior is None:
            d_s *= s
        else:
            kl_weight = self._now.kl_weight
            shrink = self._fill_shrink(kl_weight)
            d_s += shrink
            d_s *= s
            shrink *= m
            d_m += shrink
            for layer in self._d_s.layers:
                layer.W[...] -= _of_each(kl_weight, 2)
                layer.b[...] -= _of_each(kl_weight, 1)
        self._sum_by_factors()

    def adam_(self, rate: float | Array, correction: float | Array, b1: float, b2: float, epsilon: float) -> None:
        """One step of Adam: see `kernels.step_`. torch's optimizers load its compiler, which takes seconds."""
        g, numbers = self.flat.grad, self.flat.detach()
        assert g is not None
        one, own = (x if isinstance(x, float) else float(x.flat[0]) for x in (rate, correction))
        if np.all(rate == one) and np.all(correction == own):
            fused_adam_([numbers], [g], [self.first], [self.second], one, own, (b1, b2), epsilon)
            return
        replicas = int(self.replica[-1]) + 1
        scale, divisor = (torch.from_numpy(np.resize(x, replicas)[self.replica]) for x in (correction, rate))
        self.first.lerp_(g, 1 - b1)
        self.second.mul_(b2).addcmul_(g, g, value=1 - b2)
        numbers.addcdiv_(self.first, self.second.sqrt().mul_(scale).add_(epsilon).div_(divisor), value=-1)

    def divergence(self) -> float:
        """½ Σ (λ (m² + s) - 1 - log λ) - Σ ℓ, the mean over replicas."""
        if self.prior is None:
            return 0.0
        self._fill_moments()
        precision = self._fill_shrink(1.0)
        second = self._squares.flat + self._s.flat
        terms = 0.5 * (precision * second - 1 - np.log(precision)) - self._log_std.flat
        return float(terms.sum(dtype=np.float64)) / (int(self.replica[-1]) + 1)

    def _fill_shrink(self, kl_weight: float | Array) -> Array:
        """kl_weight · λ of every weight, λ as `EmpiricalBayes.precision_of` has it, or that of an isotropic prior."""
        for i, shrink in enumerate(self._shrink.layers):
            precision: Any = self.prior
            if self.prior == "empirical":
                m2, s, over = self._squares.layers[i].W, self._s.layers[i].W, (-2,) if i == 0 else (-2, -1)
                count = np.float32(math.prod(m2.shape[axis] for axis in over))
                precision = count / (np.add.reduce(m2, over, keepdims=True) + np.add.reduce(s, over, keepdims=True))
            shrink.W[...] = _of_each(kl_weight, 2) * precision
            shrink.b[...] = _of_each(kl_weight, 1) * (1.0 if self.prior == "empirical" else precision)
        return self._shrink.flat

    def _linear(self, i: int, a: Input) -> tuple[Array, Array]:
        (W_m, b_m), (W_s, b_s) = self._m.layers[i], self._s.layers[i]
        o_m = a.mean @ W_m.swapaxes(-1, -2)
        o_s = a.second @ W_s.swapaxes(-1, -2)
        if a.variance is not None:
            o_s += a.variance @ self._squares.layers[i].W.swapaxes(-1, -2)
        o_m += b_m[..., None, :]
        o_s += b_s[..., None, :]
        return o_m, o_s

    def _by_input(self, i: int, g: Gradient, a: Input) -> Gradient:
        """By the mean and the variance of what enters layer i; at the end only the first head counts."""
        g_m, g_s = g if i < self.hidden else (part[..., self._columns[0]] for part in g)
        v = g_s @ self._s.layers[i].W
        by_mean = a.mean * v
        by_mean *= 2
        by_mean += g_m @ self._m.layers[i].W
        v += g_s @ self._squares.layers[i].W
        return Gradient(by_mean, v)

    def _weight_gradient(self, i: int, a: Input, g_m: Array, g_s: Array) -> None:
        d_m, d_s = self._d_m.layers[i], self._d_s.layers[i]
        by_o_m, by_o_s = g_m.swapaxes(-1, -2), g_s.swapaxes(-1, -2)
        np.matmul(by_o_m, a.mean, out=d_m.W)
        np.matmul(by_o_s, a.second, out=d_s.W)
        np.add.reduce(g_m, -2, out=d_m.b)
        np.add.reduce(g_s, -2, out=d_s.b)
        if a.variance is not None:
            by_square = by_o_s @ a.variance
            by_square *= self._m.layers[i].W
            by_square *= 2
            d_m.W[...] += by_square


def _of_each(values: float | Array, dims: int) -> Any:
    """Of each replica, to be multiplied with so many dimensions; what is the same for all stays a number."""
    return values if isinstance(values, float) else values.reshape(-1, *[1] * dims).astype(np.float32)


_OTHERS: dict[int, list[Any]] = {1: [()], 2: [-1, -2]}  # by how many factors a weight has: axes that each lacks


class _View(NamedTuple):
    """One layer's part of a flat array."""

    W: Array  # (*replicas, out, in)
    b: Array  # (*replicas, out)


class _Flat:
    """One number for each weight and bias, in one array, with views for each layer."""

    def __init__(self, flat: Array, shapes: Sequence[tuple[int, ...]]) -> None:
        self.flat = flat
        self.layers: list[_View] = []
        start = 0
        for shape in shapes:
            middle = start + math.prod(shape)
            end = middle + math.prod(shape[:-1])
            self.layers.append(_View(flat[start:middle].reshape(shape), flat[middle:end].reshape(shape[:-1])))
            start = end


def _factors(flat: Array, layers: Sequence[Layer]) -> list[list[Array]]:
    """Of each layer: views of the log standard deviations of its weights, or of their factors, and of its biases."""
    found: list[list[Array]] = []
    start = 0
    for layer in layers:
        views = []
        for part in (*layer.W_log_std, layer.b_log_std):
            views.append(flat[start : start + part.numel()].reshape(part.shape))
            start += part.numel()
        found.append(views)
    return found


def _input(mean: Array, variance: Array | None) -> Input:
    second = mean * mean
    if variance is not None:
        second += variance
    return Input(mean, variance, second)


_DENSITY = np.float32(1 / math.sqrt(2 * math.pi))
_ROOT_HALF = np.float32(math.sqrt(0.5))
_HALF = np.float32(0.5)
_TINY = np.finfo(np.float32).tiny
_SMALLEST = np.float32(_TINY**0.5)
_FAR, _LOWEST = np.float32(1e4), np.float32(-70)  # in standard deviations; of exponents, which else make a CPU crawl


def _relu(m: Array, s: Array) -> Rectified:
    """With k = |h|, h = m/std: Q = P(x > k), u = E max(0, x - k) = φ(k) - k Q, w = E max(0, x - k)² = Q - k u.

    Then a_m = max(0, m) + std u and a_s = s (w - u² + [h > 0] (1 - 2 Q)).
    """
    std = np.sqrt(s)
    k = np.minimum(np.abs(m / np.maximum(std, _SMALLEST)), _FAR)
    pdf = k * _ROOT_HALF
    tail = torch.special.erfc(torch.from_numpy(pdf)).numpy()
    tail *= _HALF
    pdf *= pdf
    np.negative(pdf, out=pdf)
    np.exp(np.maximum(pdf, _LOWEST, out=pdf), out=pdf)
    pdf *= _DENSITY
    u = pdf - k * tail
    positive = m > 0  # products with it are faster than a choice
    inside = tail * -2
    inside += 1
    inside *= positive  # [h > 0] (1 - 2 Q)
    above = tail + inside
    curve = k * positive
    tail -= k * u  # w
    curve += u
    curve *= pdf
    np.subtract(above, curve, out=curve)  # P - φ (max(0, h) + u)
    mean = m * positive
    mean += std * u
    u *= u
    tail -= u
    tail += inside
    tail *= s
    pdf *= std
    pdf /= np.maximum(s, _TINY)  # φ/std, and 0 where s = 0
    return Rectified(_input(mean, tail), above, pdf, curve)


def _relu_gradient(r: Rectified, g: Gradient) -> Gradient:
    by_m = 1 - r.above
    by_m *= r.a.mean
    by_m *= 2
    by_m *= g.s
    by_m += g.m * r.above
    by_s = g.m * r.slope
    by_s *= _HALF
    by_s += g.s * r.curve
    return Gradient(by_m, by_s)
