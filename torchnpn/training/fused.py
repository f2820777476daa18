"""A training step in a dozen kernels: Gaussian multilayer networks on a CUDA device.

The same formulas as `kernels.cpu.linear`, `priors` and Adam, but a gradient of weights never reaches memory: the kernel
that sums it goes on to the KL and to Adam. Between the layers only activations and their gradients are written.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torchnpn._torch import has_hooks
from torchnpn.kernels import adam_, has_triton
from torchnpn.likelihoods import Likelihood, ScaledSoftmax
from torchnpn.moments import Moments
from torchnpn.nn import Linear, Sequential
from torchnpn.nn.chain import Chain, chain_of
from torchnpn.priors import EmpiricalBayes, IsotropicGaussian, Prior
from torchnpn.training.adversarial import along, radii
from torchnpn.training.data import Rows
from torchnpn.training.device import Feed
from torchnpn.training.graph import Beside
from torchnpn.training.optimizer_state import Averages
from torchnpn.training.recipe import ADAM, Recipe, adam, cosine


def why_not_fused(
    model: nn.Module, rows: Rows, likelihood: Likelihood, prior: Prior | None, recipe: Recipe
) -> str | None:
    """Why no fused step applies, in words; None where it does."""
    dense = rows.x.mean if isinstance(rows.x, Moments) else rows.x
    if not (rows.y.device.type == "cuda" or "TRITON_INTERPRET" in os.environ) or not has_triton():
        return "there is no CUDA device, or no Triton"
    if _chain(model) is None:
        return "the network is not made of Gaussian Linear layers with ReLU, Sigmoid, Tanh and Dropout between them"
    if (
        not isinstance(rows.y, Tensor)
        or not isinstance(dense, Tensor)
        or dense.dtype != torch.float32
        or dense.dim() != 2
    ):
        return "inputs are not a dense float32 matrix, or targets are sparse"
    if not all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters()):
        return "some parameters are frozen, or not float32"
    if type(prior) not in (type(None), IsotropicGaussian, EmpiricalBayes):
        return f"the prior is {type(prior).__name__}"
    if recipe.optimizer is not adam or recipe.scheduler not in (None, cosine):
        return "the optimizer or the scheduler is not the default one"
    if recipe.clip_norm is not None or recipe.compile:
        return "the recipe asks for clipping or compiling"
    return None


class FusedSteps:
    """All of a step by the kernels of `kernels.triton`; the likelihood's own parameters, if any, by autograd."""

    optimizer, scheduler = None, None  # none of torch's

    def __init__(
        self, model: nn.Module, likelihood: Likelihood, prior: Prior | None, recipe: Recipe, feed: Feed
    ) -> None:
        from torchnpn.kernels import triton  # only here: it is not installed everywhere

        self.triton = triton
        found = _chain(model)
        assert found is not None
        self.likelihood, self.feed = likelihood, feed
        self.precision = triton.PRECISIONS[recipe.precision]
        R = feed.replicas
        x = feed.rows.x if isinstance(feed.rows.x, Moments) else Moments(feed.rows.x)
        variance = None if x.variance is None else x.variance.expand_as(x.mean).contiguous()[None]
        self.x = x.mean.contiguous()[None], variance
        self.lookup = triton.Lookup(feed.order, feed.cursor, feed.following, feed.batch)
        first, self.layers = found
        self.drops = [self._drop(p, salt) for salt, p in enumerate([first, *(layer.dropout for layer in self.layers)])]
        self.acts = [triton.Activation(layer.activation) for layer in self.layers]
        self.weights = [
            triton.weights(*_free(layer.linear, R), True, i == 0 and variance is None, self.precision)
            for i, layer in enumerate(self.layers)
        ]
        self.adams = [
            triton.Adam(
                w.W_m.new_zeros(4, *w.W_m.shape), w.W_m.new_zeros(4, *w.W_m.shape[:2]), feed.schedule, feed.cursor,
                *ADAM.betas, ADAM.epsilon,
            )
            for w in self.weights
        ]  # fmt: skip
        self.penalties = [self._penalty(i, w, prior) for i, w in enumerate(self.weights)]
        plain = self.layers[-1].activation == "none"
        few = self.layers[-1].linear.out_features <= triton.MOST_CLASSES
        self.softmax = type(likelihood) is ScaledSoftmax and plain and few
        self.own = [p for p in likelihood.parameters() if p.requires_grad]
        self._both = [p.new_zeros(2, *p.shape) for p in self.own]  # Adam's averages of the likelihood's parameters
        self.beside = Beside(feed.device)
        self.radius = radii(recipe.adversarial, R, self.x[0]) if np.any(recipe.adversarial) else None
        self.nowhere = torch.zeros_like(feed.following)

    def _drop(self, p: float, salt: int) -> Any:
        return self.triton.Drop(p, self.feed.seed, self.feed.cursor, salt) if p else None

    def _penalty(self, i: int, w: Any, prior: Prior | None) -> Any:
        if prior is None:
            return self.triton.Penalty("none", 0.0)
        if isinstance(prior, IsotropicGaussian):
            return self.triton.Penalty("isotropic", prior.precision)
        kind = "inputs" if i == 0 else "all"
        return self.triton.Penalty(kind, 1.0, self.triton.new_sums(w, kind))

    def begin(self) -> None:
        for penalty, w in zip(self.penalties, self.weights, strict=True):
            self.triton.fill_pair_(w)
            self.triton.fill_sums_(penalty, w)

    def step(self) -> None:
        triton, precision = self.triton, self.precision
        shift = None if self.radius is None else self._shift(self.radius)
        inputs, outputs = self._upwards(
            triton.gather(*self.x, self.lookup, self.drops[0], precision, shift), self.drops
        )
        g = self._last_layer(inputs[-1])
        for i in reversed(range(len(self.layers))):
            up = g
            if i:
                g = self._downwards(up, i, inputs, outputs, self.drops)
            self.beside(triton.update_, up, inputs[i], self.weights[i], self.adams[i], self.penalties[i], precision)
        self.beside.join()

    def _shift(self, radius: Tensor) -> Tensor:  # (R, batch, in)
        """How the rows of this step are to be moved against their targets (`adversarial`); without dropout."""
        triton, none = self.triton, [None] * len(self.drops)
        inputs, outputs = self._upwards(triton.gather(*self.x, self.lookup, None, self.precision), none)
        g = self._last_layer(inputs[-1], learning=False)
        for i in reversed(range(1, len(self.layers))):
            g = self._downwards(g, i, inputs, outputs, none)
        x, w = inputs[0], self.weights[0]
        if x.random:
            return along(triton.input_gradient(g, x, w, precision=self.precision).m, radius)
        return along(triton.point_gradient(g, x, w, self.precision), radius)

    def _upwards(self, a: Any, drops: list[Any]) -> tuple[list[Any], list[Any]]:
        """The input of every layer, and the outputs of all but the last."""
        inputs, outputs = [a], []
        for w, act, drop in zip(self.weights[:-1], self.acts, drops[1:], strict=False):
            outputs.append(self.triton.forward(inputs[-1], w, act, drop=drop, precision=self.precision))
            inputs.append(outputs[-1].a)
        return inputs, outputs

    def _downwards(self, g: Any, i: int, inputs: list[Any], outputs: list[Any], drops: list[Any]) -> Any:
        """From the gradient by the o of layer i to that of the layer below."""
        below, act = outputs[i - 1], self.acts[i - 1]
        return self.triton.input_gradient(g, inputs[i], self.weights[i], below, act, drops[i], self.precision)

    def _last_layer(self, a: Any, learning: bool = True) -> Any:
        """The last layer and the loss; gradients by its o. Where it is not learning, the step is not over with it."""
        feed, triton, w, act = self.feed, self.triton, self.weights[-1], self.acts[-1]
        if self.softmax:
            lookup = self.lookup if learning else self.lookup._replace(following=self.nowhere)
            return triton.softmax_layer(a, w, feed.rows.y[None], feed.share, lookup, feed.losses, self.precision)
        o = triton.forward(a, w, act, last=True, precision=self.precision)
        g = self._loss(o.a, learning)
        return g if act.name == "none" else triton.activation_gradient(o.o_m, o.o_s, g.m, g.s, act)

    def _loss(self, o: Any, learning: bool) -> Any:
        """Gradients by the outputs, by autograd; the likelihood's own parameters take their step at once."""
        feed = self.feed
        with torch.enable_grad():
            m, s = (part.detach().requires_grad_() for part in (o.m, o.s))
            rows = self.likelihood.loss(Moments(m, s), feed.rows.y[feed.part(feed.order)]) * feed.part(feed.share)
            g_m, g_s, *by_own = torch.autograd.grad(rows.sum(), [m, s, *self.own], materialize_grads=True)
        if learning:
            now = feed.now()
            for parameter, gradient, averages in zip(self.own, by_own, self._both, strict=True):
                adam_(parameter.detach(), gradient, averages, now, *ADAM.betas, ADAM.epsilon)
            feed.note(rows.detach())
        return self.triton.Gradient(g_m.contiguous(), g_s.to(self.precision.variance).contiguous())

    def after(self) -> None:
        pass

    @property
    def averages(self) -> list[Averages]:
        """Adam's, of the parameters of all layers and of the likelihood."""
        found = [Averages(p, *both) for p, both in zip(self.own, self._both, strict=True)]
        for layer, kept in zip(self.layers, self.adams, strict=True):
            assert layer.linear.bias is not None
            for random, both in ((layer.linear.weight, kept.W), (layer.linear.bias, kept.b)):
                for parameter, (first, second) in zip(random.free, both.split(2), strict=True):
                    found.append(Averages(parameter, first.view_as(parameter), second.view_as(parameter)))
        return found


def _chain(model: nn.Module) -> Chain | None:
    """The layers of a network, each there once, with no dropout at the end; None for anything else."""
    if type(model) is not Sequential or has_hooks(model):
        return None
    chain = chain_of(list(model))
    if chain is None or chain.layers[-1].dropout:
        return None
    return chain if len({id(layer.linear) for layer in chain.layers}) == len(chain.layers) else None


def _free(linear: Linear, replicas: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The free tensors of a layer's weights and biases, with one leading dimension."""
    assert linear.bias is not None
    (W_m, W_v), (b_m, b_v) = linear.weight.free, linear.bias.free
    parts = ((W_m, 2), (W_v, 2), (b_m, 1), (b_v, 1))
    W_m, W_v, b_m, b_v = (p.detach().view(replicas, *p.shape[-dims:]) for p, dims in parts)
    return W_m, W_v, b_m, b_v
