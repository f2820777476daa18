"""Gaussian approximations to the posterior of logistic regression, for rows whose features may be uncertain.

With labels y in {0, 1}, weights w ~ N(0, diag(α)⁻¹) and a = w·x, both approximations maximise

    Σ c E log p(y | a) + log N(w | 0, diag(α)⁻¹),    log p(y | a) = y a - log(1 + exp a),

where the expectation is over the features x ~ N(m, diag(s)) of a row and c is its weight. Both have a posterior
precision of the form H(r) = diag(α) + Σ r E xxᵀ, E xxᵀ = m mᵀ + diag(s), with one number r for each row.

All of it is float64, on the device of the labels; with a diagonal covariance that is a CPU.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor
from torch.nn import functional as F

from torchnpn.maps import sigmoids

INTERCEPT_PRECISION = 1e-6  # a standard deviation of 1000 logits
_ELEMENTS = 1 << 22  # of features that are float64 at a time
_MOST_STEPS = 100  # of Newton
_MOST_HALVINGS = 60
_DECREMENT = 1e-9  # nats that one more step of Newton would gain
_RESIDUAL = 1e-8  # of conjugate gradients, relative
_ROUNDING = 1e-12  # of the evidence, relative
_RANGE = 1e-12, 1e8  # of a learnt precision, in units of the most that the data can say about the weight
_MIXTURE = sigmoids.ACCURATE[torch.float64].mixture  # σ(x) ≈ Σ p Φ(t x) to 1e-8: rows of t, p

Chunk = tuple[slice, Tensor, Tensor | None]  # which rows, their means, their variances


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one problem with two classes; the intercept is a last feature that is 1."""

    X: Tensor | NDArray[Any]  # (rows, features), means
    X_variance: NDArray[Any] | None
    y: Tensor  # (rows,) 0 or 1
    weight: Tensor  # (rows,)
    intercept: bool

    @property
    def features(self) -> int:
        return int(self.X.shape[1]) + self.intercept

    def chunks(self) -> Iterable[Chunk]:
        """Some rows at a time, in float64; few rows are converted once."""
        count = max(1, _ELEMENTS // self.features)
        if len(self.X) <= count:
            return [self._only_chunk]
        return (self._chunk(slice(start, start + count)) for start in range(0, len(self.X), count))

    @cached_property
    def _only_chunk(self) -> Chunk:
        return self._chunk(slice(0, len(self.X)))

    def _chunk(self, part: slice) -> Chunk:
        s = None if self.X_variance is None else self._extended(self.X_variance[part], 0.0)
        return part, self._extended(self.X[part], 1.0), s

    def _extended(self, values: Tensor | NDArray[Any], last: float) -> Tensor:
        """Values in float64, with a last column of one value where there is an intercept."""
        if isinstance(values, Tensor):
            return F.pad(values.double(), (0, int(self.intercept)), value=last)
        extended = np.full((len(values), self.features), last)
        extended[:, : values.shape[1]] = values
        return torch.from_numpy(extended)


class Posterior(NamedTuple):
    """w ~ N(mean, covariance), and the logarithm of the evidence for the prior that led to it."""

    mean: Tensor  # (features,)
    covariance: Tensor  # (features, features), or its diagonal (features,)
    log_evidence: float
    precision: Tensor  # of the prior, (features,)
    iterations: int = 1
    converged: bool = True

    @property
    def variance(self) -> Tensor:
        """Of each weight."""
        return _variances(self.covariance)


def linear_moments(x: Tensor, s: Tensor | None, mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of w·x for independent w and x: m·m_w, and mᵀS m + s·(m_w² + diag S)."""
    variance = ((x @ covariance) * x).sum(1) if covariance.ndim == 2 else x**2 @ covariance
    if s is not None:
        variance = variance + s @ (mean**2 + _variances(covariance))
    return x @ mean, variance


def _variances(covariance: Tensor) -> Tensor:
    return covariance.diagonal() if covariance.ndim == 2 else covariance


# Posterior precisions ------------------------------------------------------------------------------------------------


class FullPrecision:
    """H as a matrix."""

    def __init__(self, rows: Rows, prior: Tensor, r: Tensor) -> None:
        matrix = torch.diag(prior)
        for part, x, s in rows.chunks():
            matrix += (x * r[part, None]).T @ x
            if s is not None:
                matrix.diagonal().add_(r[part] @ s)
        self._factor = torch.linalg.cholesky(matrix)

    def solve(self, b: Tensor) -> Tensor:
        return torch.cholesky_solve(b[:, None], self._factor)[:, 0]

    def covariance(self) -> Tensor:
        inverse = torch.cholesky_inverse(self._factor)
        return 0.5 * (inverse + inverse.T)

    def log_determinant(self) -> float:
        return 2 * float(self._factor.diagonal().log().sum())


class DiagonalPrecision:
    """H by its products alone, on a CPU; of its inverse and its determinant, what its diagonal says."""

    def __init__(self, rows: Rows, prior: Tensor, r: Tensor) -> None:
        self._rows, self._r = rows, r
        self._certain, self._diagonal = prior.clone(), prior.clone()  # without and with the squares of means
        for part, x, s in rows.chunks():
            noise = 0 if s is None else r[part] @ s
            self._certain += noise
            self._diagonal += r[part] @ x**2 + noise

    def _product(self, w: Tensor) -> Tensor:
        total = self._certain * w
        for part, x, _ in self._rows.chunks():
            total += (self._r[part] * (x @ w)) @ x
        return total

    def solve(self, b: Tensor) -> Tensor:
        steps, size = 10 * len(b), (len(b), len(b))
        product = LinearOperator(size, lambda w: self._product(torch.from_numpy(w)).numpy(), dtype=np.float64)
        scaled = LinearOperator(size, lambda w: w / self._diagonal.numpy(), dtype=np.float64)
        x, wrong = cg(product, b.numpy(), rtol=_RESIDUAL, maxiter=steps, M=scaled)
        if wrong:
            _warn(f"Conjugate gradients did not converge in {steps} steps.")
        return torch.from_numpy(x)

    def covariance(self) -> Tensor:
        return 1 / self._diagonal

    def log_determinant(self) -> float:
        return float(self._diagonal.log().sum())


Precision = type[FullPrecision] | type[DiagonalPrecision]


# Laplace -------------------------------------------------------------------------------------------------------------


class _Fit(NamedTuple):
    """The log posterior at some weights, up to a constant, its slope, and r = c E σ'(a)."""

    value: float
    slope: Tensor
    r: Tensor


def laplace(rows: Rows, prior: Tensor, start: Tensor, kind: Precision = FullPrecision) -> Posterior:
    """N(w*, H⁻¹) at the maximum w*, with r = c E σ'(a) (Bishop 2006, Section 4.5); H is minus the Hessian for s = 0.

    The evidence is p(y | w*) p(w*) |2π H⁻¹|^½. Newton's steps are halved until they gain, so that classes that can be
    separated do no harm.
    """
    w, fit = start, _fit(rows, prior, start)
    for _ in range(_MOST_STEPS):
        precision = kind(rows, prior, fit.r)
        direction = precision.solve(fit.slope)
        gain = float(direction @ fit.slope)
        if gain <= _DECREMENT:
            break
        w, fit = _better(rows, prior, w, direction, fit.value, gain)
    else:
        _warn(f"Newton's method still gains {gain:.1e} nats a step after {_MOST_STEPS} steps.")
    evidence = fit.value + 0.5 * float(prior.log().sum()) - 0.5 * precision.log_determinant()
    return Posterior(w, precision.covariance(), evidence, prior)


def _better(rows: Rows, prior: Tensor, w: Tensor, direction: Tensor, value: float, gain: float) -> tuple[Tensor, _Fit]:
    """The first of w + direction, w + direction/2, … that gains a share of what its slope promises."""
    share = 1.0
    for _ in range(_MOST_HALVINGS):
        fit = _fit(rows, prior, w + share * direction)
        if fit.value >= value + 1e-4 * share * gain - 1e-12 * abs(value):  # but for rounding
            break
        share /= 2
    return w + share * direction, fit


def _fit(rows: Rows, prior: Tensor, w: Tensor) -> _Fit:
    value, slope, r = -0.5 * float(prior @ w**2), -prior * w, torch.empty_like(rows.y)
    for part, x, s in rows.chunks():
        c, y, a = rows.weight[part], rows.y[part], x @ w
        if s is None:
            p = torch.sigmoid(a)
            soft, rise = torch.logaddexp(torch.zeros_like(a), a), p * (1 - p)
        else:
            soft, p, rise = _expected(a, s @ w**2)
        r[part] = c * rise
        value += float(c @ (y * a - soft))
        slope = slope + (c * (y - p)) @ x
        if s is not None:
            slope -= (r[part] @ s) * w
    return _Fit(value, slope, r)


def _expected(m: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """E log(1 + exp a), E σ(a) and E σ'(a) for a ~ N(m, v), to 1e-7.

    From σ(x) ≈ Σ p Φ(t x): with k = t/√(1 + t² v), E σ = Σ p Φ(k m), and its integral and derivative in m.
    """
    soft, mean, rise = (torch.zeros_like(m) for _ in range(3))
    for t, p in _MIXTURE:
        k = t / torch.sqrt(1 + t**2 * v)
        below, density = torch.special.ndtr(k * m), torch.exp(-0.5 * (k * m) ** 2) / math.sqrt(2 * math.pi)
        soft += p * (m * below + density / k)
        mean += p * below
        rise += p * k * density
    return soft, mean, rise


# The local variational bound -----------------------------------------------------------------------------------------


def variational(rows: Rows, prior: Tensor, xi: Tensor, kind: Precision = FullPrecision) -> tuple[Posterior, Tensor]:
    """The posterior under log σ(z) ≥ log σ(ξ) + (z - ξ)/2 - λ(ξ)(z² - ξ²), and the best ξ for it.

    With λ(ξ) = tanh(ξ/2)/(4ξ) (Jaakkola and Jordan 2000; Bishop 2006, Section 10.6) and r = 2cλ(ξ), the posterior is
    N(H⁻¹b, H⁻¹), b = Σ c (y - ½) m, and the evidence is at least
        ½ (bᵀH⁻¹b + log|diag α| - log|H|) + Σ c (log σ(ξ) - ξ/2 + λ(ξ) ξ²).
    The next ξ² is E a², over weights and features.
    """
    lam = torch.where(xi > 1e-6, torch.tanh(0.5 * xi) / (4 * xi.clamp_min(1e-6)), 0.125)
    c, b = rows.weight, torch.zeros_like(prior)
    for part, x, _ in rows.chunks():
        b += (c[part] * (rows.y[part] - 0.5)) @ x
    precision = kind(rows, prior, 2 * c * lam)
    mean, covariance = precision.solve(b), precision.covariance()
    bound = 0.5 * (float(b @ mean) + float(prior.log().sum()) - precision.log_determinant())
    bound += float(c @ (-torch.logaddexp(torch.zeros_like(xi), -xi) - 0.5 * xi + lam * xi**2))
    better = torch.empty_like(xi)
    for part, x, s in rows.chunks():
        a_m, a_s = linear_moments(x, s, mean, covariance)
        better[part] = torch.sqrt(a_m**2 + a_s)
    return Posterior(mean, covariance, bound, prior), better


# Precisions of the prior ---------------------------------------------------------------------------------------------


def fit_posterior(
    rows: Rows,
    precision: str | float = "evidence",
    method: str = "laplace",
    *,
    diagonal: bool = False,
    first_precision: float | None = None,
    max_iter: int = 500,
    tol: float = 0.0,
    precision_tol: float = 0.0,
) -> Posterior:
    """The posterior, with a prior that is given, or learnt by evidence.

    A precision is learnt by MacKay's fixed point α = Σ γ/Σ m², γ = 1 - α S_ii, over all features or for each of them.

    Args:
        rows: To learn from.
        precision: Of the prior; "evidence" learns one for all features, "ard" one for each.
        method: "laplace" or "variational".
        diagonal: Whether to keep the diagonal of the posterior precision only.
        first_precision: Where learning starts; None chooses it by the size of the features.
        max_iter: Most rounds of learning the prior, or of the bound.
        tol: A change of the log evidence, in nats, that is small enough to stop.
        precision_tol: The same for the logarithms of the precisions.
    """
    kind: Precision = DiagonalPrecision if diagonal else FullPrecision
    information = _information(rows)
    prior = _first_prior(rows, information, precision, first_precision)
    w, xi, before = torch.zeros_like(prior), torch.zeros_like(rows.y), -math.inf
    for iteration in range(1, max_iter + 1):
        if method == "laplace":
            posterior = laplace(rows, prior, w, kind)
            w = posterior.mean
        else:
            posterior, xi = variational(rows, prior, xi, kind)
        posterior = posterior._replace(iterations=iteration)
        enough = max(tol, _ROUNDING * abs(posterior.log_evidence))
        if abs(posterior.log_evidence - before) <= enough:
            return posterior
        before = posterior.log_evidence
        if isinstance(precision, str):
            prior = _next_prior(rows, information, posterior, each=precision == "ard")
            if float((prior / posterior.precision).log().abs().max()) < precision_tol:
                return posterior
        elif method == "laplace":
            return posterior
    return posterior._replace(converged=False)


def _information(rows: Rows) -> Tensor:
    """The most that the data can say about each weight, Σ c E x²/4; 1 for a feature that is zero throughout."""
    total = rows.y.new_zeros(rows.features)
    for part, x, s in rows.chunks():
        total += rows.weight[part] @ (x**2 if s is None else x**2 + s)
    return torch.where(total > 0, 0.25 * total, 1.0)[: rows.X.shape[1]]


def _first_prior(rows: Rows, information: Tensor, precision: str | float, first: float | None) -> Tensor:
    given = first if isinstance(precision, str) else precision
    if given is not None:
        return _with_intercept(rows, torch.full_like(information, given))
    scale = 4 * information / rows.weight.sum()  # E x²: then each feature moves the logit by about one
    return _with_intercept(rows, scale if precision == "ard" else scale.mean().expand_as(scale))


def _next_prior(rows: Rows, information: Tensor, posterior: Posterior, each: bool) -> Tensor:
    count = rows.X.shape[1]
    alpha, mean = posterior.precision[:count], posterior.mean[:count]
    known = (1 - alpha * posterior.variance[:count]).clamp_min(0)  # rounding may leave less than nothing known
    square = mean**2
    if not each:
        known, square, information = (part.mean().expand(count) for part in (known, square, information))
    low, high = (limit * information for limit in _RANGE)
    ratio = torch.where(square > known / high, known / square, high)
    return _with_intercept(rows, torch.maximum(ratio, low))


def _with_intercept(rows: Rows, alpha: Tensor) -> Tensor:
    return F.pad(alpha, (0, int(rows.intercept)), value=INTERCEPT_PRECISION)


def _warn(message: str) -> None:
    warnings.warn(f"{message} Scale the features alike.", ConvergenceWarning, stacklevel=2)
