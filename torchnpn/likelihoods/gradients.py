"""The gradient of a likelihood's loss in numpy, as training a small network wants it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from torchnpn.kernels import cpu
from torchnpn.likelihoods.base import Likelihood
from torchnpn.moments import Moments


def loss_gradient(likelihood: Likelihood) -> Callable[[cpu.Array, cpu.Array, cpu.Array, cpu.Array], cpu.LossGradient]:
    """A function of latent means and variances, targets and shares: share · loss of each row, and gradients of the sum.

    In closed form where there is one and the numbers are within its limits, else by autograd.
    """
    by_autograd, closed = partial(autograd_loss_gradient, likelihood), _closed_form(likelihood)
    if closed is None:
        return by_autograd
    parameters = list(likelihood.parameters())

    def call(m: cpu.Array, s: cpu.Array, y: cpu.Array, share: cpu.Array) -> cpu.LossGradient:
        found = closed(m, s, y, share, *[p.detach().numpy() for p in parameters])
        return by_autograd(m, s, y, share) if found is None else found

    return call


def _closed_form(likelihood: Likelihood) -> cpu.ClosedForm | None:
    """That of the likelihood's own module: a subclass elsewhere may change the loss, and must bring its own."""
    kind = type(likelihood)
    home = next(base for base in kind.__mro__ if "closed_form" in vars(base))
    return likelihood.closed_form() if home.__module__ in (kind.__module__, Likelihood.__module__) else None


def autograd_loss_gradient(
    likelihood: Likelihood, m: cpu.Array, s: cpu.Array, y: cpu.Array, share: cpu.Array
) -> cpu.LossGradient:
    """The same for any likelihood. A variance below zero has overflowed: as NaN it makes the training diverge."""
    s = np.where(s < 0, np.nan, s).astype(s.dtype, copy=False)
    with torch.enable_grad():
        o_m, o_s = (torch.from_numpy(part).requires_grad_() for part in (m, s))
        rows = likelihood.loss(Moments(o_m, o_s), torch.from_numpy(y)) * torch.from_numpy(share)
        gradients = torch.autograd.grad(rows.sum(), [o_m, o_s, *likelihood.parameters()], materialize_grads=True)
    by_m, by_s, *by_own = (gradient.numpy() for gradient in gradients)
    return cpu.LossGradient(rows.detach().numpy(), by_m, by_s, by_own)
