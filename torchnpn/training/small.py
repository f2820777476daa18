"""Gradients of small networks: Gaussian linear layers with ReLU between them, on a CPU, in numpy.

A step of fifty hidden units computes for a tenth of a millisecond, and torch keeps its books for two. Here all free
numbers of network and likelihood lie in one flat array, means first, then log standard deviations, so that a step is a
hundred calls of numpy and one of the optimizer. The formulas are those of `kernels.cpu.linear`, `kernels.cpu.relu` and
`priors`, and tests hold them together.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import nn

from torchnpn._torch import has_hooks
from torchnpn.families import Gaussian
from torchnpn.likelihoods import Likelihood
from torchnpn.maps import normal
from torchnpn.moments import Moments
from torchnpn.nn import Linear, MeanAndNoise, RandomParameter, ReLU, Sequential
from torchnpn.priors import EmpiricalBayes, IsotropicGaussian, Prior
from torchnpn.training.adversarial import along
from torchnpn.training.data import Batch
from torchnpn.training.gradients import BatchLoss
from torchnpn.training.optimizer_state import Averages

Array = NDArray[Any]  # of float32
_WEIGHTS = 20_000  # above, torch's products are worth its books


def takes(model: nn.Module, prior: Prior | None, device: torch.device) -> bool:
    """Whether a network and its prior are of this kind."""
    if type(model) is not Sequential or len(model) % 2 == 0 or device.type != "cpu":
        return False
    parameters = list(model.parameters())
    return (
        all(type(layer) is Linear and _is_plain(layer) for layer in [*list(model)[:-1:2], *_heads(model[-1])])
        and all(type(activation) is ReLU for activation in list(model)[1::2])
        and all(p.requires_grad and p.dtype == torch.float32 for p in parameters)
        and sum(p.numel() for p in parameters) <= _WEIGHTS
        and not any(has_hooks(m) for m in model.modules())
        and (prior is None or type(prior) in (IsotropicGaussian, EmpiricalBayes))
    )


def _is_plain(layer: Linear) -> bool:
    return layer.weight.family is Gaussian and layer.bias is not None and not layer.replicas


def _heads(last: nn.Module) -> list[nn.Module]:
    """The layers side by side at the end of a network; only the first of them forms the features."""
    return [last.mean, last.noise] if type(last) is MeanAndNoise else [last]


class SmallNetwork:
    """All free numbers of a network and its likelihood in one flat parameter, and its gradient.

    The modules' own parameters become views of the flat one until `release`.
    """

    def __init__(self, model: Sequential, likelihood: Likelihood, prior: Prior | None, radius: float = 0.0) -> None:
        self.likelihood, self.prior, self.radius = likelihood, prior, radius
        heads = _heads(model[-1])
        self.layers: list[Linear] = [*list(model)[:-1:2], *heads]  # type: ignore[list-item]
        self.hidden = len(self.layers) - len(heads)
        ends = [0, *itertools.accumulate(layer.out_features for layer in self.layers[self.hidden :])]
        self.columns = [slice(*pair) for pair in itertools.pairwise(ends)]  # of each head, among the outputs
        random: list[RandomParameter] = [p for layer in self.layers for p in (layer.weight, layer.bias)]  # type: ignore[misc]
        self.own = [p.free[0] for p in random] + [p.free[1] for p in random] + list(likelihood.parameters())
        self.size = sum(p.shape.numel() for p in random)
        self.flat = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in self.own]))
        self.flat.grad = torch.zeros_like(self.flat)
        views = self.flat.detach().split([p.numel() for p in self.own])
        for parameter, view in zip(self.own, views, strict=True):
            parameter.data = view.view(parameter.shape)
        numbers, gradient = self.flat.detach().numpy(), self.flat.grad.numpy()
        self._m, self._log_std, _ = self._parts(numbers)
        self._d_m, self._d_s, self._d_rest = self._parts(gradient)
        self._s, self._second, precision = (_Flat(np.ones(self.size, np.float32), self.layers) for _ in range(3))
        self._precision = precision
        if isinstance(prior, IsotropicGaussian):
            precision.flat[:] = prior.precision

    def release(self) -> None:
        """Give each module its own memory back."""
        for parameter in self.own:
            parameter.data = parameter.data.clone()

    def averages(self, first: Array, second: Array) -> list[Averages]:
        """Flat averages as those of each parameter, in the same memory."""
        sizes = [p.numel() for p in self.own]
        parts = (torch.from_numpy(flat).split(sizes) for flat in (first, second))
        return [Averages(p, m.view(p.shape), v.view(p.shape)) for p, m, v in zip(self.own, *parts, strict=True)]

    def __call__(self, batch: Batch, kl_weight: float) -> BatchLoss:
        m, s, d_m, d_s = self._m.flat, self._s.flat, self._d_m.flat, self._d_s.flat
        np.exp(np.multiply(self._log_std.flat, 2, out=s), out=s)
        loss = self._data_gradient(batch)
        if self.prior is not None:
            self._learn_precision()
            d_m += kl_weight * self._precision.flat * m
            d_s += (0.5 * kl_weight) * self._precision.flat
        d_s *= s  # from here on by ℓ, where s = exp(2ℓ)
        d_s *= 2
        if self.prior is not None:
            d_s -= kl_weight
        return loss

    def divergence(self) -> float:
        """½ Σ (λ (m² + s) - 1 - log λ) - Σ ℓ."""
        if self.prior is None:
            return 0.0
        np.exp(2 * self._log_std.flat, out=self._s.flat)
        self._learn_precision()
        m, s, precision = self._m.flat, self._s.flat, self._precision.flat
        terms = 0.5 * (precision * (m * m + s) - 1 - np.log(precision)) - self._log_std.flat
        return float(terms.sum(dtype=np.float64))

    def _data_gradient(self, batch: Batch) -> BatchLoss:
        (x, variance), (share, total) = _arrays(batch.x), _shares(batch)
        y = batch.y.numpy()
        if self.radius:
            x = x + self._shift(_input(x, variance), y, share)
        inputs, relus, o_m, o_s = self._upwards(_input(x, variance))
        loss, by_m, by_s, rest = self.likelihood.loss_gradient(o_m, o_s, y, share)
        for i, columns in enumerate(self.columns, self.hidden):
            self._weight_gradient(i, inputs[-1], by_m[:, columns], by_s[:, columns])
        g_m, g_s = by_m[:, self.columns[0]], by_s[:, self.columns[0]]
        for i in reversed(range(self.hidden)):
            g_m, g_s = _relu_gradient(relus[i], *self._input_gradient(i + 1, inputs[i + 1], g_m, g_s))
            self._weight_gradient(i, inputs[i], g_m, g_s)
        if rest:
            np.concatenate([part.reshape(-1) for part in rest], out=self._d_rest)
        return BatchLoss(total, loss)

    def _shift(self, a: _Input, y: Array, share: Array) -> Array:
        """How the rows are to be moved against their targets (`adversarial`)."""
        inputs, relus, o_m, o_s = self._upwards(a)
        _, by_m, by_s, _ = self.likelihood.loss_gradient(o_m, o_s, y, share)
        g_m, g_s = by_m[:, self.columns[0]], by_s[:, self.columns[0]]
        for i in reversed(range(self.hidden)):
            g_m, g_s = _relu_gradient(relus[i], *self._input_gradient(i + 1, inputs[i + 1], g_m, g_s))
        by_x, _ = self._input_gradient(0, a, g_m, g_s)
        shift: Array = along(torch.from_numpy(by_x), self.radius).numpy()
        return shift

    def _upwards(self, a: _Input) -> tuple[list[_Input], list[_Rectified], Array, Array]:
        """What enters each layer, the hidden units, and the outputs of all heads."""
        inputs, relus = [a], []
        for i in range(self.hidden):
            relus.append(_relu(*self._linear(i, inputs[-1])))
            inputs.append(_input(relus[-1].mean, relus[-1].variance))
        outputs = [self._linear(i, inputs[-1]) for i in range(self.hidden, len(self.layers))]
        o_m, o_s = outputs[0] if len(outputs) == 1 else (np.hstack(parts) for parts in zip(*outputs, strict=True))
        return inputs, relus, o_m, o_s

    def _input_gradient(self, i: int, a: _Input, g_m: Array, g_s: Array) -> tuple[Array, Array]:
        """By the mean and the variance of what enters layer i."""
        W_m, W_s = self._m.layers[i].W, self._s.layers[i].W
        v = g_s @ W_s
        return g_m @ W_m + 2 * a.mean * v, v + g_s @ (W_m * W_m)

    def _linear(self, i: int, a: _Input) -> tuple[Array, Array]:
        m, s = self._m.layers[i], self._s.layers[i]
        o_m, o_s = a.mean @ m.W.T + m.b, a.second @ s.W.T + s.b
        if a.variance is not None:
            o_s += a.variance @ (m.W * m.W).T
        return o_m, o_s

    def _weight_gradient(self, i: int, a: _Input, g_m: Array, g_s: Array) -> None:
        d_m, d_s = self._d_m.layers[i], self._d_s.layers[i]
        np.matmul(g_m.T, a.mean, out=d_m.W)
        np.matmul(g_s.T, a.second, out=d_s.W)
        np.add.reduce(g_m, 0, out=d_m.b)
        np.add.reduce(g_s, 0, out=d_s.b)
        if a.variance is not None:
            d_m.W[...] += 2 * self._m.layers[i].W * (g_s.T @ a.variance)

    def _learn_precision(self) -> None:
        """1/v as `EmpiricalBayes.precision_of` has it; an `IsotropicGaussian`'s stays as it is."""
        if isinstance(self.prior, IsotropicGaussian):
            return
        np.add(np.square(self._m.flat, out=self._second.flat), self._s.flat, out=self._second.flat)
        for i, (second, precision) in enumerate(zip(self._second.layers, self._precision.layers, strict=True)):
            W = second.W
            precision.W[...] = len(W) / np.add.reduce(W, 0) if i == 0 else W.size / np.add.reduce(W, None)

    def _parts(self, flat: Array) -> tuple[_Flat, _Flat, Array]:
        """Means, log standard deviations, and the likelihood's numbers."""
        n = self.size
        return _Flat(flat[:n], self.layers), _Flat(flat[n : 2 * n], self.layers), flat[2 * n :]


class _Input(NamedTuple):
    """What enters a layer."""

    mean: Array
    variance: Array | None
    second: Array  # E a²


def _input(mean: Array, variance: Array | None) -> _Input:
    square = mean * mean
    return _Input(mean, variance, square if variance is None else square + variance)


class _Layer(NamedTuple):
    """Views of one layer's part of a flat array."""

    W: Array  # (out, in)
    b: Array  # (out,)


class _Flat:
    """One number for each weight and bias, in one array, with views for each layer."""

    def __init__(self, flat: Array, layers: list[Linear]) -> None:
        self.flat = flat
        self.layers: list[_Layer] = []
        start = 0
        for layer in layers:
            n_out, n_in = layer.out_features, layer.in_features
            middle, end = start + n_out * n_in, start + n_out * n_in + n_out
            self.layers.append(_Layer(flat[start:middle].reshape(n_out, n_in), flat[middle:end]))
            start = end


class _Rectified(NamedTuple):
    """max(0, x), and what its gradient needs; letters as in `kernels.cpu.relu`."""

    mean: Array
    variance: Array
    h: Array
    std: Array
    pdf: Array
    u: Array
    above: Array  # P(x > 0)


_COEFFICIENTS = np.array([normal.A32, normal.B32], np.float32)  # lowest power first
_DENSITY = np.float32(1 / math.sqrt(2 * math.pi))
_SMALLEST = np.float32(np.finfo(np.float32).tiny ** 0.5)


def _relu(m: Array, s: Array) -> _Rectified:
    std = np.sqrt(s)
    h = np.minimum(np.maximum(m / np.maximum(std, _SMALLEST), -1e4), 1e4)
    pdf = _DENSITY * np.exp(np.maximum(-0.5 * h * h, -70.0))
    k = np.abs(h)
    t = 1 / (1 + 0.3 * k)
    x = 2 * t - 1
    u, w = np.matmul(_COEFFICIENTS, _powers(x)).reshape(2, *x.shape)
    u *= t * t * pdf
    w *= t * t * t * pdf
    tail = w + k * u
    positive = h > 0
    above = np.where(positive, 1 - tail, tail)
    variance = s * (w - u * u + positive * (1 - 2 * tail))
    return _Rectified(np.maximum(m, 0) + std * u, variance, h, std, pdf, u, above)


def _powers(x: Array) -> Array:  # (…) -> (10, numbers)
    """1, x, …, x⁹, in five calls."""
    powers = np.empty((_COEFFICIENTS.shape[1], x.size), np.float32)
    powers[0] = 1
    powers[1] = x.reshape(-1)
    np.multiply(powers[1], powers[1], out=powers[2])
    np.multiply(powers[1:3], powers[2], out=powers[3:5])
    np.multiply(powers[1:5], powers[4], out=powers[5:9])
    np.multiply(powers[1], powers[8], out=powers[9])
    return powers


def _relu_gradient(r: _Rectified, g_m: Array, g_s: Array) -> tuple[Array, Array]:
    by_m = g_m * r.above + g_s * (2 * r.mean * (1 - r.above))
    slope = np.where(r.std > 0, r.pdf / np.maximum(r.std, _SMALLEST), 0)
    by_s = g_m * (0.5 * slope) + g_s * (r.above - (np.maximum(r.h, 0) + r.u) * r.pdf)
    return by_m, by_s


def _arrays(x: Any) -> tuple[Array, Array | None]:
    if scipy.sparse.issparse(x):
        return x.toarray(), None  # a batch for so few weights is small
    if isinstance(x, Moments):
        return x.mean.numpy(), None if x.variance is None else x.variance.numpy()
    return x.numpy(), None


def _shares(batch: Batch) -> tuple[Array, float]:
    """The share of each row in the loss of the batch, and the weight of all."""
    if batch.weight is None:
        rows = len(batch.y)
        return np.full(rows, 1 / rows, np.float32), float(rows)
    weight = batch.weight.numpy()
    total = float(weight.sum())
    return weight / max(total, 1e-12), total
