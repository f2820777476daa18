"""Closed forms of losses of classes."""

from __future__ import annotations

import math

import numpy as np

from torchnpn.kernels.cpu.losses.gradient import Array, LossGradient

_FAR = 1e30  # logits beyond are taken as this, as by `likelihoods.ScaledSoftmax`


def scaled_softmax(m: Array, s: Array, y: Array, share: Array) -> LossGradient:
    """With k = (1 + π s/8)^-½, for the logits z = k m:

    ∂z = w (p - 1{class = y}),    ∂m = k ∂z,    ∂s = -π/16 k³ m ∂z.
    """
    k = 1 / np.sqrt(1 + np.float32(math.pi / 8) * s)
    z = np.clip(k * m, -_FAR, _FAR)
    z -= z.max(-1, keepdims=True)
    p = np.exp(z)
    total = p.sum(-1, keepdims=True)
    each = np.arange(y.size), y.reshape(-1)  # the class of each row, in arrays (rows of all replicas, classes)
    losses = np.log(total[..., 0]) - z.reshape(-1, z.shape[-1])[each].reshape(y.shape)
    p /= total
    p.reshape(-1, p.shape[-1])[each] -= 1
    by_m = k * (share[..., None] * p)
    return LossGradient(share * losses, by_m, np.float32(-math.pi / 16) * k * k * m * by_m, [])
