"""Proportions: beta noise around the sigmoid of the latent."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import Beta
from torchnpn.kernels import cpu
from torchnpn.likelihoods.base import Array, Likelihood, VarianceParts, learnt_parameter, wide_latent
from torchnpn.likelihoods.guards import LOG_VARIANCE, exp_of_parameter, logit, sigmoid_parts
from torchnpn.moments import Moments


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
    predicts, support = Beta, constraints.unit_interval
    separable = mostly_noise = True
    simpler = "gaussian"
    arguments: ClassVar = {"targets": int, "replicas": tuple}

    def __init__(self, targets: int = 1, initial_log_precision: float = 2.0, *, replicas: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.log_precision = learnt_parameter(initial_log_precision, targets, replicas)

    @property
    def precision(self) -> Tensor:  # (*replicas, 1, targets)
        """φ."""
        return exp_of_parameter(self.log_precision)

    @staticmethod
    def start(y: Array, weight: Array | None) -> Array:
        mean = np.average(y, axis=0, weights=weight)
        odds: Array = np.log(mean / (1 - mean))
        return odds

    def predict(self, o: Moments) -> Beta:
        (above, below, rho), phi = self._parts(o), self.precision
        nu = phi * (1 - rho).clamp_min(torch.finfo(rho.dtype).eps) / (1 + rho * phi)
        return Beta.unchecked(above * nu, below * nu)

    def variance_parts(self, o: Moments) -> VarianceParts:
        above, below, rho = self._parts(o)
        return VarianceParts.of(rho * above * below, (1 - rho) * above * below / (1 + self.precision))

    def closed_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.beta, limit=LOG_VARIANCE)

    @staticmethod
    def _parts(o: Moments) -> tuple[Tensor, Tensor, Tensor]:
        return sigmoid_parts(logit(*wide_latent(o)))
