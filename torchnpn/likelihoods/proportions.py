"""Proportions: beta noise around the sigmoid of the latent."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from scipy.special import digamma, expit, gammaln
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import Beta
from torchnpn.likelihoods.base import Array, Likelihood, LossGradient, VarianceParts, learnt, wide_latent
from torchnpn.likelihoods.guards import widened
from torchnpn.likelihoods.limits import LOG_VARIANCE, limited
from torchnpn.likelihoods.logit import logit, sigmoid_parts
from torchnpn.likelihoods.positive import MOSTLY_NOISE, of_parameter, within
from torchnpn.moments import Moments

_QUADRATURE_MEAN, _QUADRATURE_VARIANCE = 15.0, 4.0  # within, 32 nodes are right to 1e-7
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS /= _WEIGHTS.sum()


class BetaProportions(Likelihood):
    """y | o ~ beta with mean σ(o) and a learnt precision φ, so Var[y | o] = σ(o) (1 - σ(o))/(1 + φ).

    With P = E σ(o), V = Var σ(o) and ρ = V/P(1 - P) < 1: E y = P, Var y = V + (P(1 - P) - V)/(1 + φ). The predictive
    distribution is the beta with these moments: c = P ν, d = (1 - P) ν with ν = φ (1 - ρ)/(1 + ρ φ). The loss is its
    -log p(y), in float64, because it is a difference of large log Γ.

    Args:
        targets: Number of targets, each with its own precision; 1 for one shared by all.
        initial_log_precision: log φ at the start.
        replicas: Leading dimensions of the network's replicas.
    """

    name, words = "beta", "a proportion"
    support = constraints.unit_interval
    separable = True
    simpler = "gaussian"
    arguments: ClassVar = {"targets": int, "replicas": tuple}

    def __init__(self, targets: int = 1, initial_log_precision: float = 2.0, *, replicas: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.log_precision = learnt(initial_log_precision, targets, replicas)

    @property
    def precision(self) -> Tensor:  # (*replicas, 1, targets)
        """φ."""
        return torch.exp(limited(widened(self.log_precision), LOG_VARIANCE)).unsqueeze(-2)

    @classmethod
    def marginal(cls, x: Moments) -> Beta:
        return Beta.from_moments(x)

    @staticmethod
    def start(y: Array, weight: Array | None) -> Array:
        mean = np.average(y, axis=0, weights=weight)
        odds: Array = np.log(mean / (1 - mean))
        return odds

    def least_kl(self) -> float:
        return MOSTLY_NOISE

    def predict(self, o: Moments) -> Beta:
        (above, below, rho), phi = self._parts(o), self.precision
        nu = phi * (1 - rho).clamp_min(torch.finfo(rho.dtype).eps) / (1 + rho * phi)
        return Beta.unchecked(above * nu, below * nu)

    def variance_parts(self, o: Moments) -> VarianceParts:
        above, below, rho = self._parts(o)
        return VarianceParts.of(rho * above * below, (1 - rho) * above * below / (1 + self.precision))

    @staticmethod
    def _parts(o: Moments) -> tuple[Tensor, Tensor, Tensor]:
        return sigmoid_parts(logit(*wide_latent(o)))

    def loss_gradient(self, m: Array, s: Array, y: Array, share: Array) -> LossGradient:
        """In closed form but for P and V, which are sums over 32 Gauss-Hermite nodes; with w the share of the row and

        log p = log Γ(ν) - log Γ(c) - log Γ(d) + (c - 1) log y + (d - 1) log(1 - y),
        ∂c log p = log y + ψ(ν) - ψ(c),    ∂d log p = log(1 - y) + ψ(ν) - ψ(d),    ∂ρ ν = -φ (1 + φ)/(1 + ρ φ)².
        """
        log_precision = self.log_precision.detach().numpy().astype(np.float64)
        if not (
            within(m, _QUADRATURE_MEAN) and within(s, _QUADRATURE_VARIANCE) and within(log_precision, LOG_VARIANCE)
        ):
            return super().loss_gradient(m, s, y, share)
        w, y, phi = share[:, None], y.astype(np.float64), np.exp(log_precision)
        P, V, (P_m, P_s), (V_m, V_s) = _sigmoid_moments(m, s)
        both = P * (1 - P)
        rho = V / both
        nu = phi * (1 - rho) / (1 + rho * phi)
        c, d = P * nu, (1 - P) * nu
        log_y, log_rest = np.log(y), np.log1p(-y)
        log_prob = gammaln(nu) - gammaln(c) - gammaln(d) + (c - 1) * log_y + (d - 1) * log_rest
        by_c, by_d = log_y + digamma(nu) - digamma(c), log_rest + digamma(nu) - digamma(d)
        by_nu = P * by_c + (1 - P) * by_d
        by_V = -by_nu * phi * (1 + phi) / (1 + rho * phi) ** 2 / both
        by_P = nu * (by_c - by_d) - by_V * rho * (1 - 2 * P)
        by_log_phi = by_nu * phi * (1 - rho) / (1 + rho * phi) ** 2
        return LossGradient(
            float(-(w * log_prob).sum()),
            (-w * (by_P * P_m + by_V * V_m)).astype(np.float32),
            (-w * (by_P * P_s + by_V * V_s)).astype(np.float32),
            [of_parameter(-w * by_log_phi, log_precision)],
        )


def _sigmoid_moments(m: Array, s: Array) -> tuple[Array, Array, tuple[Array, Array], tuple[Array, Array]]:
    """Mean P and variance V of σ(x) for Gaussian x, and the derivatives of each by m and s.

    With f = σ(x), f₁ = f (1 - f), f₂ = f₁ (1 - 2f):  ∂m P = E f₁,  ∂s P = ½ E f₂,
    ∂m V = 2 E f f₁ - 2 P ∂m P,  ∂s V = E (f₁² + f f₂) - 2 P ∂s P.
    """
    f = expit(m[..., None] + np.sqrt(s, dtype=np.float64)[..., None] * _NODES)
    f1 = f * (1 - f)
    f2 = f1 * (1 - 2 * f)
    P, P_m, P_s = f @ _WEIGHTS, f1 @ _WEIGHTS, 0.5 * (f2 @ _WEIGHTS)
    V = (f - P[..., None]) ** 2 @ _WEIGHTS
    V_m, V_s = 2 * ((f * f1) @ _WEIGHTS - P * P_m), (f1 * f1 + f * f2) @ _WEIGHTS - 2 * P * P_s
    return P, V, (P_m, P_s), (V_m, V_s)
