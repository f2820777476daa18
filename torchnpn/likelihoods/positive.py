"""Positive amounts: gamma noise around the exponential of the latent."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import digamma, gammaln
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import Gamma
from torchnpn.likelihoods.base import Array, Likelihood, LossGradient, VarianceParts, latent, learnt
from torchnpn.likelihoods.limits import LOG_MEAN, LOG_VARIANCE, limited
from torchnpn.moments import Moments


class GammaAmounts(Likelihood):
    """y | o ~ gamma with mean e^o and a learnt shape k, so the relative standard deviation is 1/√k whatever the size.

    With o ~ N(m, s): E y = exp(m + s/2), Var y = (E y)² (e^s (1 + 1/k) - 1), and the predictive distribution is the
    gamma with these moments. The loss is its -log p(y), in float64, because it is a difference of large log Γ.

    Args:
        targets: Number of targets, each with its own shape; 1 for one shape shared by all.
        initial_log_shape: log k at the start.
        replicas: Leading dimensions of the network's replicas.
    """

    support = constraints.positive

    def __init__(self, targets: int = 1, initial_log_shape: float = 0.0, *, replicas: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.log_shape = learnt(initial_log_shape, targets, replicas)

    @property
    def dispersion(self) -> Tensor:  # (*replicas, 1, targets)
        """1/k."""
        return torch.exp(-limited(self.log_shape.double(), LOG_VARIANCE)).unsqueeze(-2)

    def predict(self, o: Moments) -> Gamma:
        log_mean, s = log_normal(o)
        log_c = -torch.log(relative_variance(s, self.dispersion))
        return Gamma.unchecked(*torch.broadcast_tensors(torch.exp(log_c), torch.exp(log_c - log_mean)))

    def variance_parts(self, o: Moments) -> VarianceParts:
        log_mean, s = log_normal(o)
        square = torch.exp(2 * log_mean)
        return VarianceParts.of(square * torch.expm1(s), square * torch.exp(s) * self.dispersion)

    def loss_gradient(self, m: Array, s: Array, y: Array, share: Array) -> LossGradient:
        """In closed form, with ν = m + s/2, relative variance v, c = 1/v, and w the share of the row:

        log p = c (log c - ν) + (c - 1) log y - c y e^-ν - log Γ(c),
        ∂ν log p = c (y e^-ν - 1),    ∂c log p = log c + 1 - ν + log y - y e^-ν - ψ(c),    ∂s v = v + 1.
        """
        log_shape = self.log_shape.detach().numpy().astype(np.float64)
        log_mean = m + 0.5 * s.astype(np.float64)
        if not (within(log_mean, LOG_MEAN) and within(s, LOG_VARIANCE) and within(log_shape, LOG_VARIANCE)):
            return super().loss_gradient(m, s, y, share)
        w, log_y = share[:, None], np.log(y)
        noise = np.exp(s - log_shape)
        v = np.expm1(s, dtype=np.float64) + noise
        c, relative = 1 / v, y * np.exp(-log_mean)
        log_c = np.log(c)
        log_prob = c * (log_c - log_mean - relative) + (c - 1) * log_y - gammaln(c)
        by_v = w * c * c * (log_c + 1 - log_mean + log_y - relative - digamma(c))
        by_m = w * c * (1 - relative)
        return LossGradient(
            float(-(w * log_prob).sum()),
            by_m.astype(np.float32),
            (0.5 * by_m + by_v * (v + 1)).astype(np.float32),
            [of_parameter(-by_v * noise, log_shape)],
        )

    def extra_repr(self) -> str:
        return f"targets={self.log_shape.shape[-1]}"


def within(x: Array, limit: float) -> bool:
    """Whether `limited` leaves all of x as it is."""
    return bool(np.abs(x).max() <= limit)


def of_parameter(by_element: Array, parameter: Array) -> Array:
    """The gradient (batch, targets) of a learnt number, summed to its shape (targets,) or (1,)."""
    by_target = by_element.sum(0)
    total = by_target if by_target.shape == parameter.shape else by_target.sum(keepdims=True)
    gradient: Array = total.astype(np.float32)
    return gradient


def log_normal(o: Moments) -> tuple[Tensor, Tensor]:
    """log E e^x = m + s/2 and s for x ~ o, within limits and in float64: all that the moments of e^x need."""
    m, s = latent(o, at_least=torch.float64)
    return limited(m + 0.5 * s, LOG_MEAN), limited(s, LOG_VARIANCE)


def relative_variance(s: Tensor, noise: Tensor | float) -> Tensor:
    """Var/mean² = e^s (1 + noise) - 1 of e^x times an independent factor of mean one and variance `noise`."""
    return torch.expm1(s) + torch.exp(s) * noise
