"""The fused layer as autograd calls it: f(a Wᵀ + b) and its gradients, for any leading dimensions of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchnpn.kernels.triton import layer
from torchnpn.kernels.triton.signals import (
    Activation,
    Gradient,
    Precision,
    Signal,
    Tied,
    Weights,
    fused_once,
    pad,
)
from torchnpn.moments import Moments


def linear(
    a: Moments,
    W: Sequence[Tensor],
    b: Sequence[Tensor] | None,
    act: Activation,
    precision: Precision,
    log_std: bool = False,
) -> Moments:
    """f(a Wᵀ + b); W and b are mean and variance, or with `log_std` mean and log standard deviation.

    W may also be a mean (…, out, in) with tied variances, or logarithms, (…, out, 1) and (…, 1, in).
    """
    return Moments(*_Linear.apply(act, precision, log_std, *a, *((None, None) if b is None else b), *W))


def network(
    a: Moments, layers: Sequence[tuple[Any, Any, str]], precision: Precision, beside: Sequence[tuple[Any, Any, str]]
) -> Moments:
    """See `kernels.network`."""
    replicas = layers[0][0].free[0].shape[:-2]
    point, last = a.variance is None, len(layers) - 1
    found = [
        _cached_weights(weight, bias, point and min(i, last) == 0, precision)
        for i, (weight, bias, _) in enumerate([*layers, *beside])
    ]
    signal = _signal(*a, found[0], precision)
    for (_, _, name), w, above in zip(layers[:last], found, found[1:], strict=False):
        signal = layer.forward(signal, w, Activation(name), above=above, keep=False, precision=precision).a
    outputs = []
    for i, ((_, _, name), w) in enumerate(zip([layers[last], *beside], found[last:], strict=True)):
        entering = layer.retied(signal, w) if i else signal
        o = layer.forward(entering, w, Activation(name), keep=False, precision=precision).a
        outputs.append([_unflat(part, replicas, w.W_m.shape[-2]) for part in o[:2]])  # type: ignore[arg-type]
    return Moments(*(parts[0] if len(parts) == 1 else torch.cat(parts, -1) for parts in zip(*outputs, strict=True)))


def _cached_weights(weight: Any, bias: Any, point: bool, precision: Precision) -> Weights:
    """A layer's parameters as the kernels want them; the pair is computed once for weights that do not change."""
    name = f"padded {point} {precision.mean}"
    w: Weights = layer.weights(*_flat_weights(weight.free, bias.free), True, point, precision, place=weight.workspace)
    weight.cached(name, lambda: layer.fill_pair_(w))
    return w


def activate(o: Moments, act: Activation) -> Moments:
    """f(o) alone."""
    return Moments(*_Activation.apply(*o, act))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, act: Activation, precision: Precision, log_std: bool, *tensors: Any) -> tuple[Tensor, Tensor]:
        a_m, a_s, b_m, b_v, *W = tensors
        w = layer.weights(*_flat_weights(W, None if b_m is None else (b_m, b_v)), log_std, a_s is None, precision)
        layer.fill_pair_(w)
        a = _signal(a_m, a_s, w, precision)
        out = layer.forward(a, w, act, keep=any(ctx.needs_input_grad), precision=precision)
        ctx.save_for_backward(a.m, a.pair, a.t, *w[:5], w.pair, *(w.tied or ()), out.o_m, out.o_s)
        ctx.settings = act, precision, log_std, [None if t is None else t.shape for t in tensors]
        return tuple(_unflat(part, W[0].shape[:-2], W[0].shape[-2]) for part in out.a[:2])  # type: ignore

    @staticmethod
    @fused_once
    def backward(ctx: Any, g_m: Tensor, g_s: Tensor) -> tuple[Tensor | None, ...]:
        act, precision, log_std, shapes = ctx.settings
        a_m, a_pair, t, W_m, padded, W_v, b_m, b_v, W_pair, *tied, o_m, o_s = ctx.saved_tensors
        a = Signal(a_m, None, a_pair, t)
        w = Weights(W_m, padded, W_v, b_m, b_v, log_std, W_pair, Tied(*tied) if tied else None)
        g = Gradient(pad(_flat(g_m, 2)), pad(_flat(g_s, 2)))
        if act.name != "none":
            g = layer.activation_gradient(o_m, o_s, g.m, g.s, act)
        g = layer.with_u(g, w)
        needs = ctx.needs_input_grad[3:]
        found: list[Tensor | None] = [None] * len(shapes)
        if a.random and (needs[0] or needs[1]):
            by_a = layer.input_gradient(g, a, w, precision=precision)
            found[:2] = [_as_input(d, shapes[0]) for d in (by_a.m, by_a.s)]
        elif needs[0]:
            found[0] = _as_input(layer.point_gradient(g, a, w, precision), shapes[0])
        if any(needs[2:]):
            *by_W, by_b_m, by_b_v = layer.weight_gradient(g, a, w, precision)
            each = zip((by_b_m, by_b_v, *by_W), shapes[2:], strict=True)
            found[2:] = [None if d is None else d.reshape(size) for d, size in each]
        return None, None, None, *found


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
        g = layer.activation_gradient(m, s, g_m.contiguous(), g_s.contiguous(), ctx.act)
        return g.m, g.s, None


def _signal(a_m: Tensor, a_s: Tensor | None, w: Weights, precision: Precision) -> Signal:
    return layer.signal(_flat(a_m, 2), None if a_s is None else _flat(a_s.expand_as(a_m), 2), w, precision)


def _flat_weights(
    W: Sequence[Tensor], b: Sequence[Tensor] | None
) -> tuple[list[Tensor], tuple[Tensor | None, Tensor | None]]:
    """Mean and spread of the weights, in one list, and both tensors of the bias; one dimension for all replicas."""
    mean, *spread = W
    log_r_c = (log.flatten(-2) for log in spread) if len(spread) > 1 else ()
    flat = [_flat(mean, 2), *([_flat(spread[0], 2)] if len(spread) == 1 else [_flat(log, 1) for log in log_r_c])]
    return flat, (None, None) if b is None else (_flat(b[0], 1), _flat(b[1], 1))


def _flat(t: Tensor, dims: int) -> Tensor:
    """One leading dimension for all replicas."""
    return t.reshape(-1, *t.shape[-dims:]).contiguous()


def _unflat(t: Tensor, replicas: Sequence[int], features: int) -> Tensor:
    """With the dimensions of replicas that the parameters have, and without padding."""
    return t[..., :features].reshape(*replicas, t.shape[-2], features)


def _as_input(d: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of an input, summed where replicas shared it."""
    d = d[..., : shape[-1]]
    return d.reshape(shape) if d.numel() == shape.numel() else d.sum(0).view(shape)
