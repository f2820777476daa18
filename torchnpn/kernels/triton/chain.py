"""Operations of a training step of a Gaussian chain on a CUDA device, a dozen kernels a step (see `training.chain`).

The same formulas as `kernels.cpu.linear`, `priors` and Adam, but a gradient of weights never reaches memory: the kernel
that sums it goes on to the KL and to Adam. Between the layers only activations and their gradients are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchnpn.kernels.triton import layer, update
from torchnpn.kernels.triton.signals import Activation, Drop, Forward, Gradient, Precision, Signal, Weights
from torchnpn.kernels.triton.step import gather, softmax_layer


class Layer(NamedTuple):
    """The free tensors of a linear layer, with one leading dimension of replicas, and what comes after it."""

    W_m: Tensor  # (R, out, in)
    W_log_std: Tensor
    b_m: Tensor  # (R, out)
    b_log_std: Tensor
    activation: str
    dropout: float


class TritonChain:
    """The operations of a step, in the memory of the modules' own parameters.

    Args:
        x: Means and variances of all rows, (rows, in); no variances for points.
        plan: Which of them belong to which step: a `training.epoch.DevicePlan`.
        dropout: On the inputs.
        layers: In order.
        prior: Precision of an isotropic Gaussian, "empirical" for `priors.EmpiricalBayes`, or None.
        adam: Decay of Adam's two averages, and its smallest divisor.
        precision: Of the products.
        labels: Of all rows, where the loss is that of `likelihoods.ScaledSoftmax`; else None.
        loss: Gradients by means and variances of the outputs, for all other losses; says with its third argument
            whether the likelihood's own parameters take their step.
        beside: Calls a function with its arguments on a stream of its own.
    """

    def __init__(
        self,
        x: tuple[Tensor, Tensor | None],
        plan: Any,
        dropout: float,
        layers: Sequence[Layer],
        prior: float | str | None,
        adam: tuple[float, float, float],
        precision: Precision,
        labels: Tensor | None,
        loss: Callable[[Tensor, Tensor, bool], tuple[Tensor, Tensor]],
        beside: Callable[..., None],
    ) -> None:
        mean, variance = x
        self._x = mean.contiguous()[None], None if variance is None else variance.expand_as(mean).contiguous()[None]
        self._plan, self._precision, self._labels, self._loss, self._beside = plan, precision, labels, loss, beside
        self._not_following = torch.zeros_like(plan.following)
        rates = [dropout, *(one.dropout for one in layers)]
        self._drops = [Drop(p, plan.seed, plan.cursor, salt) if p else None for salt, p in enumerate(rates)]
        self._acts = [Activation(one.activation) for one in layers]
        self.weights = [
            layer.weights(*one[:4], True, i == 0 and variance is None, precision) for i, one in enumerate(layers)
        ]
        self.adams = [
            update.Adam(
                w.W_m.new_zeros(4, *w.W_m.shape), w.W_m.new_zeros(4, *w.W_m.shape[:2]),
                plan.schedule, plan.cursor, *adam,
            )
            for w in self.weights
        ]  # fmt: skip
        self._penalties = [_penalty(i, w, prior) for i, w in enumerate(self.weights)]

    @property
    def hidden(self) -> int:
        return len(self.weights) - 1

    def begin(self) -> None:
        """At the beginning of an epoch: what is kept of the weights is computed anew."""
        for penalty, w in zip(self._penalties, self.weights, strict=True):
            layer.fill_pair_(w)
            update.fill_sums_(penalty, w)

    def gather(self, dropout: bool) -> Signal:
        """The rows of the step under way."""
        return gather(*self._x, self._plan, self._drops[0] if dropout else None, self._precision)

    def moved(self, a: Signal, shift: Tensor) -> Signal:
        """Rows that are moved against their targets, then dropped."""
        return gather(*self._x, self._plan, self._drops[0], self._precision, shift)

    def forward(self, i: int, a: Signal, dropout: bool) -> Forward:
        """Hidden layer i."""
        drop = self._drops[i + 1] if dropout else None
        return layer.forward(a, self.weights[i], self._acts[i], drop=drop, precision=self._precision)

    def loss(self, a: Signal, learning: bool) -> Gradient:
        """The last layer and the loss; gradients by its o. Where it is not learning, the step is not over with it."""
        w, act, precision = self.weights[-1], self._acts[-1], self._precision
        if self._labels is not None:
            following = self._plan.following if learning else self._not_following
            return softmax_layer(a, w, self._labels[None], self._plan, following, precision)
        o = layer.forward(a, w, act, last=True, precision=precision)
        assert o.a.s is not None
        g_m, g_s = self._loss(o.a.m, o.a.s, learning)
        g = Gradient(g_m.contiguous(), g_s.to(precision.variance).contiguous())
        return g if act.name == "none" else layer.activation_gradient(o.o_m, o.o_s, g.m, g.s, act)

    def input_gradient(self, i: int, g: Gradient, a: Signal, below: Forward, dropout: bool) -> Gradient:
        """From the gradient by the o of layer i to that by the o of the layer below."""
        drop = self._drops[i] if dropout else None
        return layer.input_gradient(g, a, self.weights[i], below, self._acts[i - 1], drop, self._precision)

    def row_gradient(self, g: Gradient, a: Signal) -> Tensor:
        """The gradient by the means of the rows."""
        w, precision = self.weights[0], self._precision
        if a.random:
            return layer.input_gradient(g, a, w, precision=precision).m
        return layer.point_gradient(g, a, w, precision)

    def update_(self, i: int, g: Gradient, a: Signal) -> None:
        """New weights of layer i, beside what follows."""
        self._beside(update.update_, g, a, self.weights[i], self.adams[i], self._penalties[i], self._precision)

    def averages(self) -> list[Sequence[Any]]:
        """Of each layer, Adam's first and second averages of its four tensors, in the order of `Layer`."""
        return [[*kept.W.split(2), *kept.b.split(2)] for kept in self.adams]


def _penalty(i: int, w: Weights, prior: float | str | None) -> update.Penalty:
    if prior is None:
        return update.Penalty("none", 0.0)
    if isinstance(prior, float):
        return update.Penalty("isotropic", prior)
    kind = "inputs" if i == 0 else "all"
    return update.Penalty(kind, 1.0, update.new_sums(w, kind))
