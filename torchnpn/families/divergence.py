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
from torchnpn.families.base import ExponentialFamily
from torchnpn.families.bernoulli import Bernoulli
from torchnpn.families.beta import Beta
from torchnpn.families.deviance import deviance, excess, excess_of_ratio, log_ratio
from torchnpn.families.gamma import Gamma
from torchnpn.families.gaussian import Gaussian
from torchnpn.families.gumbel import EULER, Gumbel
from torchnpn.families.inverse_gamma import InverseGamma
from torchnpn.families.inverse_gaussian import InverseGaussian
from torchnpn.families.log_normal import LogNormal
from torchnpn.families.natural import derivatives
from torchnpn.families.negative_binomial import NegativeBinomial
from torchnpn.families.pareto import Pareto
from torchnpn.families.poisson import Poisson
from torchnpn.families.rayleigh import Rayleigh
from torchnpn.families.scale_mixture import GaussianScaleMixture
from torchnpn.families.weibull import Weibull
from torchnpn.finite import clamped, difference


def kl(p: ExponentialFamily, q: ExponentialFamily | GaussianScaleMixture) -> Tensor:
    """KL(p ‖ q) in nats, in p's type, computed in at least float32.

    It is infinite where p has mass that q has not, as a point or a larger support may have; else at most the type's
    largest finite number.

    A pair in the table has its closed form; `Gaussian` or `Gamma` against `GaussianScaleMixture` an upper bound. A
    family of your own, the same on both sides, has the form that A(η) gives it.
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
    both = [member for member in (p, q) if isinstance(member, ExponentialFamily)]
    shape = torch.broadcast_tensors(*(tensor for member in both for tensor in member._tensors()))[0].shape
    wide = [member.entered(torch.promote_types(member.dtype, torch.float32), shape) for member in both]
    divergence = formula(wide[0], wide[-1] if len(wide) == 2 else q)
    return torch.where(divergence.isinf(), torch.inf, clamped(divergence, p.dtype))


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
    q_m = torch.as_tensor(q.m).to(p.m)
    equal, point = (p.s == q.s) & (p.m == q_m), (p.s == 0) | (q.s == 0)
    p_s, q_s = torch.where(point, 1.0, p.s), torch.where(point, 1.0, q.s)
    finite = clamped(0.5 * (difference(p.m, q_m, q_s.sqrt()) ** 2 + excess_of_ratio(p_s, q_s)))
    return torch.where(equal, 0.0, torch.where(point, torch.inf, finite))


def gaussian_mixture(p: Gaussian, q: GaussianScaleMixture) -> Tensor:
    """The bound `of_components`."""
    own = Gaussian.unchecked(p.m[..., None], p.s[..., None])
    return of_components(gaussian_gaussian(own, Gaussian.unchecked(0.0, q.variances.to(p.m))), q)


def gamma_mixture(p: Gamma, q: GaussianScaleMixture) -> Tensor:
    """The bound `of_components`."""
    own = Gamma.unchecked(p.c[..., None], p.d[..., None])
    return of_components(gamma_gaussian(own, Gaussian.unchecked(0.0, q.variances.to(p.c))), q)


def of_components(each: Tensor, q: GaussianScaleMixture) -> Tensor:
    """Upper bound KL(p ‖ Σ π_k q_k) ≤ -log Σ_k π_k exp(-KL(p ‖ q_k)) for any p, tight where one component explains p.

    Jensen's inequality: E_p log Σ_k w_k (π_k q_k/w_k) ≥ Σ_k w_k E_p log (π_k q_k/w_k), with the best weights w.
    """
    return -torch.logsumexp(torch.log(q.weights.to(each)) - each, dim=-1)


def gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    """c_q F(c_p d_q / c_q d_p) + ½ F(c_q/c_p) + μ(c_q) - μ(c_p) - (c_q - c_p) μ'(c_p), three parts ≥ 0."""
    c, d = (p.c - q.c) / q.c, (p.d - q.d) / p.d
    near = (c.abs() < 0.5) & (d.abs() < 0.5)  # of near neighbours c and d are exact, but not x - 1
    c, d = torch.where(near, c, 0.0), torch.where(near, d, 0.0)
    rates = torch.log(p.c) + torch.log(q.d) - torch.log(p.d)
    far = deviance(q.c, clamped(p.c * clamped(q.d / p.d)), rates)
    means = torch.where(near, q.c * excess(c - d - c * d, (1 + c) * (1 - d)), far)
    return clamped(clamped(means) + _gamma_shapes(p.c, q.c))


def gamma_gaussian(p: Gamma, q: Gaussian) -> Tensor:
    """KL of the Gaussian with p's moments, plus what gamma's entropy lacks to that Gaussian's: J(c) = O(1/3c).

    J = 1/2c + (c - 1) μ'(c) - μ(c). The paper prints the prior's term as ½ λ c(c+1) where ½ λ c(c+1)/d² belongs.
    """
    lack = 0.5 / p.c + (p.c - 1) * stirling.slope(p.c) - stirling.remainder(p.c)
    return gaussian_gaussian(Gaussian.unchecked(p.mean, p.variance), q) + clamped(lack)


def inverse_gamma_inverse_gamma(p: InverseGamma, q: InverseGamma) -> Tensor:
    """That of the gamma variables 1/x."""
    return gamma_gamma(Gamma.unchecked(p.a, p.b), Gamma.unchecked(q.a, q.b))


def rayleigh_rayleigh(p: Rayleigh, q: Rayleigh) -> Tensor:
    """F(σ_p²/σ_q²)."""
    return clamped(excess_of_ratio(p.sigma2, q.sigma2))


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
    trials = bernoulli_bernoulli(Bernoulli.unchecked(p.p), Bernoulli.unchecked(q.p))
    return torch.where(trials.isinf(), torch.inf, clamped(clamped(p.n / (1 - p.p)) * trials))


def inverse_gaussian_inverse_gaussian(p: InverseGaussian, q: InverseGaussian) -> Tensor:
    """½ F(λ_q/λ_p) + λ_q (μ_p - μ_q)² / 2 μ_p μ_q²."""
    z = clamped(q.lam.sqrt() / p.mu.sqrt()) * ((p.mu - q.mu) / q.mu)
    return clamped(0.5 * (excess_of_ratio(q.lam, p.lam) + z**2))


def gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    """Extreme values with ρ = β_p/β_q, z = (μ_q - μ_p)/β_q."""
    scale, scale0 = (torch.as_tensor(value).to(p.mu).double() for value in (p.scale, q.scale))
    return clamped(_extreme_values(difference(q.mu.double(), p.mu.double(), scale0), scale, scale0), p.dtype)


def weibull_weibull(p: Weibull, q: Weibull) -> Tensor:
    """That of the Gumbel variables -log x: ρ = k_q/k_p, z = k_q log(λ_p/λ_q)."""
    shape, shape0 = (torch.as_tensor(value).to(p.lam).double() for value in (p.shape, q.shape))
    z = clamped(shape0 * log_ratio(p.lam.double(), q.lam.double()))
    return clamped(_extreme_values(z, shape0, shape), p.dtype)


def pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    """F(α_q/α_p) + α_q log(x_p/x_q) for minima x_p ≥ x_q; infinite where p has mass below q's minimum."""
    x, x0 = (torch.as_tensor(value).to(p.alpha) for value in (p.x_min, q.x_min))
    finite = clamped(excess_of_ratio(q.alpha, p.alpha) + clamped(q.alpha * log_ratio(x, x0)))
    return torch.where(x >= x0, finite, torch.inf)


def beta_beta(p: Beta, q: Beta) -> Tensor:
    """N_q times the divergence of Bernoulli trials with q's mean from those with p's, plus what shapes add; in float64.

    With G(c) the divergence of gammas of those shapes at equal means, shapes add G(c) + G(d) - G(c+d).
    """
    (c, d), (c0, d0) = ((member.c.double(), member.d.double()) for member in (p, q))
    n, n0 = clamped(c + d), clamped(c0 + d0)
    by_c, by_d, by_c0, by_d0 = c / n, d / n, c0 / n0, d0 / n0
    gap = by_c * by_d0 - by_d * by_c0  # of the means; their own difference would have fewer digits
    means = _rates(by_c0, by_c, gap, torch.log(c) - torch.log(n)) + _rates(
        by_d0, by_d, -gap, torch.log(d) - torch.log(n)
    )
    shapes = _gamma_shapes(c, c0) + _gamma_shapes(d, d0) - _gamma_shapes(n, n0)
    return clamped((clamped(n0 * means) + shapes).clamp_min(0.0), p.dtype)


def _rates(c: Tensor, c0: Tensor, gap: Tensor, log_c0: Tensor | None = None) -> Tensor:
    """D(c, c0) = c0 - c + c log(c/c0) given gap = c0 - c too: c0 for c = 0, infinite for c0 = 0 < c."""
    zero = c == 0
    safe = torch.where(zero, 1.0, c)
    log_c0 = torch.log(torch.where(zero, 1.0, c0)) if log_c0 is None else log_c0
    return torch.where(zero, c0, deviance(safe, c0, log_c0, torch.where(zero, 0.0, gap)))


def _gamma_shapes(c: Tensor, c0: Tensor) -> Tensor:
    """KL of gammas of equal mean, ½ F(c0/c) and the Bregman divergence of μ (in float64: it cancels for c ≈ c0)."""
    a, b = c.double(), c0.double()
    rest = stirling.remainder(b) - stirling.remainder(a) - clamped(stirling.tangent(a, b - a))
    return clamped(clamped(0.5 * excess_of_ratio(c0, c)) + clamped(rest.clamp_min(0.0), c.dtype))


def _extreme_values(z: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """F(e^z Γ(1+ρ)) + log Γ(ρ) + γ (ρ - 1) with ρ = a/b, two parts ≥ 0."""
    rho, log_rho = clamped(a / b), log_ratio(a, b)
    log_gamma = clamped(torch.lgamma(1 + rho))
    log_x = clamped(z + log_gamma)
    near = log_x.abs() < 0.25
    small = torch.expm1(torch.where(near, log_x, 0.0))
    means = torch.where(near, excess(small, 1 + small), torch.exp(log_x) - 1 - log_x)
    return clamped(means) + clamped(log_gamma - log_rho + EULER * (rho - 1))


_TABLE: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {
    (Gaussian, Gaussian): gaussian_gaussian,
    (Gaussian, GaussianScaleMixture): gaussian_mixture,
    (Gamma, GaussianScaleMixture): gamma_mixture,
    (LogNormal, LogNormal): gaussian_gaussian,  # of log x: a divergence does not depend on the units
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
