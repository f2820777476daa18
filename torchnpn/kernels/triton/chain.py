"""Operations of a training step of a Gaussian chain on a CUDA device, a dozen kernels a step (see `training.chain`).

The same formulas as `kernels.cpu.linear`, `priors` and optimizer, but a gradient of weights never reaches memory: the
kernel that sums it goes on to the KL and to the step. Between layers only activations and their gradients are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchnpn.kernels.triton import layer, update
from torchnpn.kernels.triton.signals import Activation, Drop, Forward, Gradient, Precision, Signal, Weights
from torchnpn.kernels.triton.step import class_layer, gather


class Layer(NamedTuple):
    """The free tensors of a linear layer, with one leading dimension of replicas, and what comes after it."""

    W: Sequence[Tensor]  # mean (R, out, in), and log standard deviations of its shape, or tied: (R, out), (R, in)
    b: tuple[Tensor, Tensor]  # mean and log standard deviation, (R, out)
    activation: str
    dropout: float


class TritonChain:
    """The operations of a step, in the memory of the modules' own parameters.

    Args:
        x: Means and variances of all rows, (rows, in); no variances for points.
        plan: Which of them belong to which step: a `training.epoch.DevicePlan`.
        dropout: On the inputs.
        hidden: Layers in order.
        heads: Layers side by side at the end; only the first of them forms the features.
        prior: Precision of an isotropic Gaussian, "empirical" for `priors.EmpiricalBayes`, or None.
        rule: Of the optimizer: see `kernels.step_`.
        precision: Of the products.
        labels: Of all rows, where the loss is that of `likelihoods.ScaledSoftmax` or `ScaledSigmoids`; else None.
        sigmoids: Whether it is the latter.
        loss: Gradients by the outputs of all heads, for all other losses; its second argument says whether the step is
            a learning one, in which the likelihood's own parameters take theirs.
        beside: Calls a function with its arguments on a stream of its own.
    """

    def __init__(
        self,
        x: tuple[Tensor, Tensor | None],
        plan: Any,
        dropout: float,
        hidden: Sequence[Layer],
        heads: Sequence[Layer],
        prior: float | str | None,
        rule: tuple[str, float, float, float],
        precision: Precision,
        labels: Tensor | None,
        sigmoids: bool,
        loss: Callable[[Sequence[Signal], bool], Sequence[Gradient]],
        beside: Callable[..., None],
    ) -> None:
        mean, variance = x
        self._x = mean.contiguous()[None], None if variance is None else variance.expand_as(mean).contiguous()[None]
        self._plan, self._precision, self._labels, self._sigmoids = plan, precision, labels, sigmoids
        self._loss, self._beside = loss, beside
        self._not_following = torch.zeros_like(plan.following)
        self.hidden, layers = len(hidden), [*hidden, *heads]
        rates = [dropout, *(one.dropout for one in layers)]
        self._drops = [Drop(p, plan.seed, plan.cursor, salt) if p else None for salt, p in enumerate(rates)]
        self._acts = [Activation(one.activation) for one in layers]
        self.weights = [
            layer.weights(one.W, one.b, True, i == 0 and variance is None, precision) for i, one in enumerate(layers)
        ]
        ends = zip(self.weights[self.hidden :], self._acts[self.hidden :], strict=True)
        r2 = [None if w.tied is None or act.name != "none" else w.tied.r2 for w, act in ends]
        self.head_squares = r2 if all(one is not None for one in r2) else [None] * len(r2)  # if a loss may form their u
        self.optimizers = [update.new_optimizer(w, plan.schedule, plan.cursor, rule) for w in self.weights]
        self._penalties = [_penalty(i, w, prior) for i, w in enumerate(self.weights)]
        self._beside_first: list[tuple[Gradient, Signal]] = []  # of the other heads, in the step under way

    def begin(self) -> None:
        """At the beginning of an epoch: what is kept of the weights is computed anew."""
        for penalty, w in zip(self._penalties, self.weights, strict=True):
            layer.fill_pair_(w)
            update.fill_sums_(penalty, w)

    def gather(self, dropout: bool) -> Signal:
        """The rows of the step under way."""
        return gather(*self._x, self._plan, self.weights[0], self._drops[0] if dropout else None, self._precision)

    def moved(self, a: Signal, shift: Tensor) -> Signal:
        """Rows that are moved against their targets, then dropped."""
        return gather(*self._x, self._plan, self.weights[0], self._drops[0], self._precision, shift)

    def forward(self, i: int, a: Signal, dropout: bool) -> Forward:
        """Hidden layer i."""
        drop, above = self._drops[i + 1] if dropout else None, self.weights[i + 1]
        return layer.forward(a, self.weights[i], self._acts[i], above=above, drop=drop, precision=self._precision)

    def loss(self, a: Signal, learning: bool) -> Gradient:
        """The heads and the loss; gradients by the o of the first. Without learning, the step is not over with it."""
        heads, act, precision = self.weights[self.hidden :], self._acts[-1], self._precision
        if self._labels is not None:
            following = self._plan.following if learning else self._not_following
            return class_layer(a, heads[0], self._labels[None], self._plan, following, precision, self._sigmoids)
        inputs = [a, *(layer.retied(a, w) for w in heads[1:])]
        outputs = [layer.forward(a, w, act, precision=precision) for a, w in zip(inputs, heads, strict=True)]
        found = []
        for g, o, w in zip(self._loss([o.a for o in outputs], learning), outputs, heads, strict=True):
            by_o = g if act.name == "none" else layer.activation_gradient(o.o_m, o.o_s, g.m, g.s, act)
            by_o = by_o._replace(s=by_o.s.to(precision.variance))
            found.append(by_o if by_o.u is not None else layer.with_u(by_o, w))
        self._beside_first = [*zip(found[1:], inputs[1:], strict=True)]
        return found[0]

    def input_gradient(self, i: int, g: Gradient, a: Signal, below: Forward, dropout: bool) -> Gradient:
        """From the gradient by the o of layer i to that by the o of the layer below."""
        drop, tied = self._drops[i] if dropout else None, self.weights[i - 1].tied
        r2 = None if tied is None else tied.r2
        return layer.input_gradient(g, a, self.weights[i], below, self._acts[i - 1], drop, self._precision, r2)

    def row_gradient(self, g: Gradient, a: Signal) -> Tensor:
        """The gradient by the means of the rows."""
        w, precision = self.weights[0], self._precision
        if a.random:
            return layer.input_gradient(g, a, w, precision=precision).m
        return layer.point_gradient(g, a, w, precision)

    def update_(self, i: int, g: Gradient, a: Signal) -> None:
        """New weights of layer i, or of all heads, beside what follows."""
        beside = self._beside_first if i == self.hidden else []
        for k, (own, entering) in enumerate([(g, a), *beside], i):
            parts = self.weights[k], self.optimizers[k], self._penalties[k], self._precision
            self._beside(update.update_, own, entering, *parts)

    def averages(self) -> list[Sequence[Any]]:
        """Of each layer, the optimizer's first and second averages of its tensors, in the order of `Layer`."""
        tied = (w.tied is not None for w in self.weights)
        return [
            [*one.W.split(2), *((one.r, one.c) if has else ()), *one.b.split(2)]
            for one, has in zip(self.optimizers, tied, strict=True)
        ]


def _penalty(i: int, w: Weights, prior: float | str | None) -> update.Penalty:
    if prior is None:
        return update.new_penalty("none", 0.0, w)
    if isinstance(prior, float):
        return update.new_penalty("isotropic", prior, w)
    return update.new_penalty("inputs" if i == 0 else "all", 1.0, w)
