"""The fused layer as autograd calls it: f(a Wᵀ + b) and its gradients, for any leading dimensions of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchnpn.kernels.triton import layer
from torchnpn.kernels.triton.signals import Activation, Gradient, Precision, Signal, Weights, fused_once
from torchnpn.moments import Moments


def linear(
    a: Moments,
    W: Sequence[Tensor | None],
    b: Sequence[Tensor | None] | None,
    act: Activation,
    precision: Precision,
    log_std: bool = False,
) -> Moments:
    """f(a Wᵀ + b); W and b are mean and variance, or with `log_std` mean and log standard deviation."""
    b_m, b_v = (None, None) if b is None else b
    return Moments(*_Linear.apply(a.mean, a.variance, *W, b_m, b_v, act, precision, log_std))


def network(a: Moments, layers: Sequence[tuple[Any, Any, str]], precision: Precision) -> Moments:
    """See `kernels.network`."""
    replicas = layers[0][0].free[0].shape[:-2]
    signal = _signal(*a, precision)
    for i, (weight, bias, name) in enumerate(layers):
        w = _cached_weights(weight, bias, not signal.random, precision)
        last = i == len(layers) - 1
        signal = layer.forward(signal, w, Activation(name), keep=False, last=last, precision=precision).a
    assert signal.s is not None
    shape = (*replicas, *signal.m.shape[1:])
    return Moments(signal.m.view(shape), signal.s.view(shape))


def _cached_weights(weight: Any, bias: Any, point: bool, precision: Precision) -> Weights:
    """A layer's parameters as the kernels want them; the pair is computed once for weights that do not change."""
    name = f"pair {point} {precision.mean}"
    W_m, W_v, b_m, b_v = (_flat(t, dims) for p, dims in ((weight, 2), (bias, 1)) for t in p.free)
    R, N, K = W_m.shape
    pair = weight.workspace(name, (R, N, K if point else 2 * K), precision.variance)
    w = Weights(W_m, W_v, b_m, b_v, True, pair)
    weight.cached(name, lambda: layer.fill_pair_(w))
    return w


def activate(o: Moments, act: Activation) -> Moments:
    """f(o) alone."""
    return Moments(*_Activation.apply(*o, act))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        *tensors, act, precision, log_std = arguments
        a_m, a_s, W_m, W_v, b_m, b_v = tensors
        a = _signal(a_m, a_s, precision)
        b_m, b_v = (None, None) if b_m is None else (_flat(b_m, 1), _flat(b_v, 1))
        w = layer.weights(_flat(W_m, 2), _flat(W_v, 2), b_m, b_v, log_std, a_s is None, precision)
        layer.fill_pair_(w)
        out = layer.forward(a, w, act, keep=any(ctx.needs_input_grad), last=True, precision=precision)
        ctx.save_for_backward(a.m, a.pair, *w[:4], w.pair, out.o_m, out.o_s)
        ctx.settings = act, precision, log_std, a_m.shape, [None if t is None else t.shape for t in tensors[2:]]
        shape = (*W_m.shape[:-2], a_m.shape[-2], W_m.shape[-2])
        return out.a.m.view(shape), out.a.s.view(shape)  # type: ignore[union-attr]

    @staticmethod
    @fused_once
    def backward(ctx: Any, g_m: Tensor, g_s: Tensor) -> tuple[Tensor | None, ...]:
        act, precision, log_std, shape, shapes = ctx.settings
        a_m, a_pair, W_m, W_v, b_m, b_v, W_pair, o_m, o_s = ctx.saved_tensors
        a, w = Signal(a_m, None, a_pair), Weights(W_m, W_v, b_m, b_v, log_std, W_pair)
        g = Gradient(_flat(g_m, 2), _flat(g_s, 2))
        if act.name != "none":
            g = layer.activation_gradient(o_m, o_s, g.m, g.s, act)
        d_m = d_s = None
        if a.random and (ctx.needs_input_grad[0] or ctx.needs_input_grad[1]):
            d_m, d_s = (_as_input(d, shape) for d in layer.input_gradient(g, a, w, precision=precision))
        elif ctx.needs_input_grad[0]:
            d_m = _as_input(layer.point_gradient(g, a, w, precision), shape)
        gradients: tuple[Tensor | None, ...] = (None,) * 4
        if any(ctx.needs_input_grad[2:6]):
            found = layer.weight_gradient(g, a, w, precision)
            gradients = tuple(None if d is None else d.view(size) for d, size in zip(found, shapes, strict=True))
        return d_m, d_s, *gradients, None, None, None


class _Activation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, m: Tensor, s: Tensor, act: Activation) -> tuple[Tensor, Tensor]:
        m, s = m.contiguous(), s.contiguous()
        ctx.save_for_backward(m, s)
        ctx.act = act
        return layer.activation(m, s, act)

    @staticmethod
    @fused_once
    def backward(ctx: Any, g_m: Tensor, g_s: Tensor) -> tuple[Tensor, Tensor, None]:
        m, s = ctx.saved_tensors
        d_m, d_s = layer.activation_gradient(m, s, g_m.contiguous(), g_s.contiguous(), ctx.act)
        return d_m, d_s, None


def _signal(a_m: Tensor, a_s: Tensor | None, precision: Precision) -> Signal:
    return layer.point_or_random(_flat(a_m, 2), None if a_s is None else _flat(a_s.expand_as(a_m), 2), precision)


def _flat(t: Tensor, dims: int) -> Tensor:
    """One leading dimension for all replicas."""
    return t.reshape(-1, *t.shape[-dims:]).contiguous()


def _as_input(d: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of an input, summed where replicas shared it."""
    return d.view(shape) if d.numel() == shape.numel() else d.sum(0).view(shape)
