"""Kullback-Leibler divergences KL(p ‖ q) = E_p log p(x)/q(x) in nats, element by element, with gradients.

Closed forms are built from F(x) = x - 1 - log x ≥ 0, formed without cancellation, so that near-equal distributions keep
their digits in float32 and no divergence is negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchnpn.families import checks, stirling
from torchnpn.families.base import ExponentialFamily, derivatives
from torchnpn.families.bernoulli import Bernoulli
from torchnpn.families.beta import Beta
from torchnpn.families.gamma import Gamma
from torchnpn.families.gaussian import Gaussian
from torchnpn.families.gumbel import EULER, Gumbel
from torchnpn.families.inverse_gamma import InverseGamma
from torchnpn.families.inverse_gaussian import InverseGaussian
from torchnpn.families.negative_binomial import NegativeBinomial
from torchnpn.families.pareto import Pareto
from torchnpn.families.poisson import Poisson
from torchnpn.families.rayleigh import Rayleigh
from torchnpn.families.scale_mixture import GaussianScaleMixture
from torchnpn.families.weibull import Weibull


def kl(p: ExponentialFamily, q: ExponentialFamily | GaussianScaleMixture) -> Tensor:
    """KL(p ‖ q) in nats, in p's type, computed in at least float32.

    A pair in the table has its closed form; `Gaussian` against `GaussianScaleMixture` an upper bound. A family of your
    own, the same on both sides, has the form that A(η) gives it.
    """
    formula = _TABLE.get((type(p), type(q)))
    if formula is None and isinstance(p, ExponentialFamily) and type(p) is type(q):
        formula = bregman
    if formula is None:
        pairs = ", ".join(f"{left.__name__} ‖ {right.__name__}" for left, right in _TABLE)
        raise TypeError(
            f"kl has no formula for {type(p).__name__} ‖ {type(q).__name__}. It knows {pairs}, and any family of your "
            "own within itself."
        )
    return formula(p.widened(), q.widened() if isinstance(q, ExponentialFamily) else q).to(p.dtype)


def bregman(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """A(η_q) - A(η_p) - (η_q - η_p)·∇A(η_p), in float64: any family within itself."""
    p, q = p.to(torch.float64), q.to(torch.float64)
    eta = torch.broadcast_tensors(*p.natural, *q.natural)
    eta_p, eta_q = eta[: len(eta) // 2], eta[len(eta) // 2 :]
    slopes = (derivatives(p.log_partition, eta_p, i)[0] for i in range(len(eta_p)))
    tangent = sum(((b - a) * slope for a, b, slope in zip(eta_p, eta_q, slopes, strict=True)), torch.zeros_like(eta[0]))
    divergence = p.log_partition(*eta_q) - p.log_partition(*eta_p) - tangent
    return divergence.clamp_min(0.0)  # A is convex: what falls below zero is rounding


def gaussian_gaussian(p: Gaussian, q: Gaussian) -> Tensor:
    """½ ((m_p - m_q)²/s_q + F(s_p/s_q)). The paper prints the prior's λ where λ s_p belongs."""
    return 0.5 * ((p.m - q.m) ** 2 / q.s + _f(p.s, q.s))


def gaussian_mixture(p: Gaussian, q: GaussianScaleMixture) -> Tensor:
    """Upper bound -log Σ_k π_k exp(-KL(p ‖ N(0, v_k))), tight where one component explains p."""
    variances, weights = q.variances.to(p.m), q.weights.to(p.m)
    each = gaussian_gaussian(Gaussian.unchecked(p.m[..., None], p.s[..., None]), Gaussian.unchecked(0.0, variances))
    return -torch.logsumexp(torch.log(weights) - each, dim=-1)


def gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    """c_q F(c_p d_q / c_q d_p) + ½ F(c_q/c_p) + μ(c_q) - μ(c_p) - (c_q - c_p) μ'(c_p), three parts ≥ 0."""
    c, d = (p.c - q.c) / q.c, (p.d - q.d) / p.d
    x = (q.d / p.d) * (p.c / q.c)
    near = (c.abs() < 0.5) & (d.abs() < 0.5)  # of near neighbours c and d are exact, but not x - 1
    return q.c * _excess(torch.where(near, c - d - c * d, x - 1), x) + _gamma_shapes(p.c, q.c)


def gamma_gaussian(p: Gamma, q: Gaussian) -> Tensor:
    """KL of the Gaussian with p's moments, plus what gamma's entropy lacks to that Gaussian's: J(c) = O(1/3c).

    J = 1/2c + (c - 1) μ'(c) - μ(c). The paper prints the prior's term as ½ λ c(c+1) where ½ λ c(c+1)/d² belongs.
    """
    lack = 0.5 / p.c + (p.c - 1) * stirling.slope(p.c) - stirling.remainder(p.c)
    return gaussian_gaussian(Gaussian.unchecked(p.mean, p.variance), q) + lack


def inverse_gamma_inverse_gamma(p: InverseGamma, q: InverseGamma) -> Tensor:
    """That of the gamma variables 1/x."""
    return gamma_gamma(Gamma.unchecked(p.a, p.b), Gamma.unchecked(q.a, q.b))


def rayleigh_rayleigh(p: Rayleigh, q: Rayleigh) -> Tensor:
    """F(σ_p²/σ_q²)."""
    return _f(p.sigma2, q.sigma2)


def poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    """c_q - c_p + c_p log(c_p/c_q) = c_p F(c_q/c_p)."""
    return _rates(p.c, q.c, q.c - p.c)


def bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    """p log(p/p') + (1-p) log((1-p)/(1-p')), as the divergences of two Poisson rates."""
    return _rates(p.p, q.p, q.p - p.p) + _rates(1 - p.p, 1 - q.p, p.p - q.p)


def negative_binomial_negative_binomial(p: NegativeBinomial, q: NegativeBinomial) -> Tensor:
    """n/(1-p) times the divergence of the Bernoulli trials; a closed form exists only for one and the same n."""
    hint = "Use one known n for both: NegativeBinomial.from_moments(x, n=...)."
    checks.require(
        (q.n - p.n).abs() <= 1e-6 * p.n, q.n - p.n, "kl of negative binomials expects n with difference 0", hint
    )
    return p.n / (1 - p.p) * bernoulli_bernoulli(Bernoulli.unchecked(p.p), Bernoulli.unchecked(q.p))


def inverse_gaussian_inverse_gaussian(p: InverseGaussian, q: InverseGaussian) -> Tensor:
    """½ F(λ_q/λ_p) + λ_q (μ_p - μ_q)² / 2 μ_p μ_q²."""
    return 0.5 * (_f(q.lam, p.lam) + q.lam / p.mu * ((p.mu - q.mu) / q.mu) ** 2)


def gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    """Extreme values with ρ = β_p/β_q, z = (μ_q - μ_p)/β_q."""
    return _extreme_values((q.mu - p.mu) / q.scale, torch.as_tensor(p.scale / q.scale).to(p.mu))


def weibull_weibull(p: Weibull, q: Weibull) -> Tensor:
    """That of the Gumbel variables -log x: ρ = k_q/k_p, z = k_q log(λ_p/λ_q)."""
    return _extreme_values(q.shape * _log_ratio(p.lam, q.lam), torch.as_tensor(q.shape / p.shape).to(p.lam))


def pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    """F(α_q/α_p) + α_q log(x_p/x_q) for minima x_p ≥ x_q; infinite where p has mass below q's minimum."""
    ratio = torch.as_tensor(p.x_min / q.x_min).to(p.alpha)
    return torch.where(ratio >= 1, _f(q.alpha, p.alpha) + q.alpha * torch.log(ratio), torch.inf)


def beta_beta(p: Beta, q: Beta) -> Tensor:
    """G(c) + G(d) - G(c+d), with G the divergence of gammas of those shapes at equal rates; in float64."""
    p, q = p.to(torch.float64), q.to(torch.float64)
    one = torch.ones_like(p.c)
    shapes = ((p.c, q.c), (p.d, q.d), (p.c + p.d, q.c + q.d))
    c, d, total = (gamma_gamma(Gamma.unchecked(a, one), Gamma.unchecked(b, one)) for a, b in shapes)
    return (c + d - total).clamp_min(0.0)


def _f(a: Tensor, b: Tensor) -> Tensor:
    """F(a/b)."""
    return _excess((a - b) / b, a / b)


def _excess(d: Tensor, x: Tensor) -> Tensor:
    """F(x) = x - 1 - log x, given d = x - 1 too: near 1 by the series of log x = 2 artanh y, y = d/(2 + d)."""
    near = d.abs() < 0.3
    y = torch.where(near, d / (2 + d), 0.0)
    tail = torch.zeros_like(y)
    for k in range(11, 0, -1):
        tail = tail * y**2 + 1 / (2 * k + 1)
    return torch.where(near, y * d - 2 * y**3 * tail, d - torch.log(torch.where(near, 1.0, x)))


def _log_ratio(a: Tensor, b: Tensor) -> Tensor:
    """log(a/b), which for near neighbours keeps the digits of their difference."""
    near = (a - b).abs() < 0.3 * b
    return torch.where(near, torch.log1p(torch.where(near, (a - b) / b, 0.0)), torch.log(a / b))


def _rates(c: Tensor, c0: Tensor, difference: Tensor) -> Tensor:
    """c F(c0/c) = c0 - c + c log(c/c0), which is c0 for c = 0, given c0 - c too."""
    zero = c == 0
    safe = torch.where(zero, 1.0, c)
    return torch.where(zero, c0, safe * _excess(difference / safe, c0 / safe))


def _gamma_shapes(c: Tensor, c0: Tensor) -> Tensor:
    """KL of gammas of equal mean, ½ F(c0/c) and the Bregman divergence of μ (in float64: it cancels for c ≈ c0)."""
    a, b = c.double(), c0.double()
    rest = stirling.remainder(b) - stirling.remainder(a) - (b - a) * stirling.slope(a)
    return 0.5 * _f(c0, c) + rest.clamp_min(0.0).to(c.dtype)


def _extreme_values(z: Tensor, rho: Tensor) -> Tensor:
    """F(e^z Γ(1+ρ)) + log Γ(ρ) + γ (ρ - 1), two parts ≥ 0."""
    log_x = z + torch.lgamma(1 + rho)
    return _excess(torch.expm1(log_x), torch.exp(log_x)) + torch.lgamma(rho) + EULER * (rho - 1)


_TABLE: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {
    (Gaussian, Gaussian): gaussian_gaussian,
    (Gaussian, GaussianScaleMixture): gaussian_mixture,
    (Gamma, Gamma): gamma_gamma,
    (Gamma, Gaussian): gamma_gaussian,
    (Poisson, Poisson): poisson_poisson,
    (Beta, Beta): beta_beta,
    (Rayleigh, Rayleigh): rayleigh_rayleigh,
    (Bernoulli, Bernoulli): bernoulli_bernoulli,
    (InverseGaussian, InverseGaussian): inverse_gaussian_inverse_gaussian,
    (InverseGamma, InverseGamma): inverse_gamma_inverse_gamma,
    (Weibull, Weibull): weibull_weibull,
    (Pareto, Pareto): pareto_pareto,
    (Gumbel, Gumbel): gumbel_gumbel,
    (NegativeBinomial, NegativeBinomial): negative_binomial_negative_binomial,
}
