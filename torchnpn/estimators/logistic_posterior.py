"""Gaussian approximations to the posterior of logistic regression, for rows whose features may be uncertain.

With labels y in {0, 1}, weights w ~ N(0, diag(α)⁻¹) and a = w·x, both approximations maximise

    Σ c E log p(y | a) + log N(w | 0, diag(α)⁻¹),    log p(y | a) = y a - log(1 + exp a),

where the expectation is over the features x ~ N(m, diag(s)) of a row and c is its weight. Both have a posterior
precision of the form H(r) = diag(α) + Σ r E xxᵀ, E xxᵀ = m mᵀ + diag(s), with one number r for each row.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
import torch
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from sklearn.exceptions import ConvergenceWarning

from torchnpn.maps.sigmoids import ACCURATE

Array = NDArray[np.float64]
MOST_FEATURES = 1000  # with a full covariance
INTERCEPT_PRECISION = 1e-6  # a standard deviation of 1000 logits
_ELEMENTS = 1 << 22  # of features that are float64 at a time
_MOST_STEPS = 100  # of Newton
_MOST_HALVINGS = 60
_DECREMENT = 1e-9  # nats that one more step of Newton would gain
_ROUNDING = 1e-12  # of the evidence, relative
_RANGE = 1e-12, 1e8  # of a learnt precision, in units of the most that the data can say about the weight
_MIXTURE = np.array(ACCURATE[torch.float64].mixture)  # σ(x) ≈ Σ p Φ(t x) to 1e-8: rows of t, p


class Rows(NamedTuple):
    """The rows of one problem with two classes; the intercept is a last feature that is 1."""

    X: NDArray[Any]  # (rows, features), means
    X_variance: NDArray[Any] | None
    y: Array  # 0 or 1
    weight: Array
    intercept: bool

    @property
    def features(self) -> int:
        return int(self.X.shape[1]) + self.intercept

    def chunks(self) -> Iterator[tuple[slice, Array, Array | None]]:
        """Some rows at a time, in float64: which, their means, their variances."""
        count = max(1, _ELEMENTS // self.features)
        for start in range(0, len(self.X), count):
            part = slice(start, start + count)
            x = extended(self.X[part], self.intercept, 1.0)
            s = None if self.X_variance is None else extended(self.X_variance[part], self.intercept, 0.0)
            yield part, x, s


class Posterior(NamedTuple):
    """w ~ N(mean, covariance), and the logarithm of the evidence for the prior that led to it."""

    mean: Array  # (features,)
    covariance: Array  # (features, features), or its diagonal (features,)
    log_evidence: float
    precision: Array  # of the prior, (features,)
    iterations: int = 1


def extended(values: NDArray[Any], intercept: bool, value: float) -> Array:
    """Values in float64, with a last column of one value where there is an intercept."""
    values = np.asarray(values, dtype=np.float64)
    return np.column_stack([values, np.full(len(values), value)]) if intercept else values


def linear_moments(x: Array, s: Array | None, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Mean and variance of w·x for independent w and x: m·m_w, and mᵀS m + s·(m_w² + diag S)."""
    full = covariance.ndim == 2
    variance = ((x @ covariance) * x).sum(1) if full else x**2 @ covariance
    if s is not None:
        variance = variance + s @ (mean**2 + (np.diagonal(covariance) if full else covariance))
    return x @ mean, variance


# Posterior precisions ------------------------------------------------------------------------------------------------


class FullPrecision:
    """H as a matrix."""

    def __init__(self, rows: Rows, prior: Array, r: Array) -> None:
        matrix = np.diag(prior)
        for part, x, s in rows.chunks():
            matrix += (x.T * r[part]) @ x
            if s is not None:
                np.einsum("ii->i", matrix)[:] += r[part] @ s
        self._factor = scipy.linalg.cho_factor(matrix, lower=True)

    def solve(self, b: Array) -> Array:
        x: Array = scipy.linalg.cho_solve(self._factor, b)
        return x

    def covariance(self) -> Array:
        inverse = self.solve(np.eye(len(self._factor[0])))
        return 0.5 * (inverse + inverse.T)

    def log_determinant(self) -> float:
        return 2 * float(np.log(np.diagonal(self._factor[0])).sum())


class DiagonalPrecision:
    """H by its products alone; of its inverse and its determinant, what its diagonal says."""

    def __init__(self, rows: Rows, prior: Array, r: Array) -> None:
        self._rows, self._prior, self._r = rows, prior, r
        self._diagonal, self._noise = prior.copy(), np.zeros_like(prior)
        for part, x, s in rows.chunks():
            self._diagonal += r[part] @ x**2
            if s is not None:
                self._noise += r[part] @ s
        self._diagonal += self._noise

    def _product(self, w: Array) -> Array:
        total: Array = (self._prior + self._noise) * w
        for part, x, _ in self._rows.chunks():
            total = total + x.T @ (self._r[part] * (x @ w))
        return total

    def solve(self, b: Array) -> Array:
        shape = (len(b), len(b))
        product = scipy.sparse.linalg.LinearOperator(shape, self._product, dtype=np.float64)
        scaled = scipy.sparse.linalg.LinearOperator(shape, lambda v: v / self._diagonal, dtype=np.float64)
        solution, left = scipy.sparse.linalg.cg(product, b, rtol=1e-8, M=scaled)
        if left:
            _not_converged(f"Conjugate gradients did not settle in {left} steps.")
        x: Array = solution
        return x

    def covariance(self) -> Array:
        inverse: Array = 1 / self._diagonal
        return inverse

    def log_determinant(self) -> float:
        return float(np.log(self._diagonal).sum())


Precision = FullPrecision | DiagonalPrecision


def posterior_precision(rows: Rows, prior: Array, r: Array) -> Precision:
    """H(r), as a matrix up to `MOST_FEATURES` features and by its diagonal beyond."""
    return (FullPrecision if rows.X.shape[1] <= MOST_FEATURES else DiagonalPrecision)(rows, prior, r)


# Laplace -------------------------------------------------------------------------------------------------------------


class _Fit(NamedTuple):
    """The log posterior at some weights, up to a constant, its slope, and r = c E σ'(a)."""

    value: float
    slope: Array
    r: Array


def laplace(rows: Rows, prior: Array, start: Array) -> Posterior:
    """N(w*, H⁻¹) at the maximum w*, with r = c E σ'(a) (Bishop 2006, Section 4.5); H is minus the Hessian for s = 0.

    The evidence is p(y | w*) p(w*) |2π H⁻¹|^½. Newton's steps are halved until they gain, so that classes that can be
    separated do no harm.
    """
    w, fit = start, _fit(rows, prior, start)
    for _ in range(_MOST_STEPS):
        precision = posterior_precision(rows, prior, fit.r)
        direction = precision.solve(fit.slope)
        gain = float(direction @ fit.slope)
        if gain <= _DECREMENT:
            break
        w, fit = _better(rows, prior, w, direction, fit.value, gain)
    else:
        _not_converged(f"Newton's method still gains {gain:.1e} nats a step after {_MOST_STEPS} steps.")
    evidence = fit.value + 0.5 * float(np.log(prior).sum()) - 0.5 * precision.log_determinant()
    return Posterior(w, precision.covariance(), evidence, prior)


def _better(rows: Rows, prior: Array, w: Array, direction: Array, value: float, gain: float) -> tuple[Array, _Fit]:
    """The first of w + direction, w + direction/2, … that gains a share of what its slope promises."""
    share = 1.0
    for _ in range(_MOST_HALVINGS):
        fit = _fit(rows, prior, w + share * direction)
        if fit.value >= value + 1e-4 * share * gain - 1e-12 * abs(value):  # but for rounding
            break
        share /= 2
    return w + share * direction, fit


def _fit(rows: Rows, prior: Array, w: Array) -> _Fit:
    value, slope, r = -0.5 * float(prior @ w**2), -prior * w, np.empty(len(rows.y))
    for part, x, s in rows.chunks():
        c, y, a = rows.weight[part], rows.y[part], x @ w
        if s is None:
            p = expit(a)
            soft, rise = np.logaddexp(0, a), p * (1 - p)
        else:
            soft, p, rise = _expected(a, s @ w**2)
        r[part] = c * rise
        value += float(c @ (y * a - soft))
        slope = slope + (c * (y - p)) @ x
        if s is not None:
            slope -= (r[part] @ s) * w
    return _Fit(value, slope, r)


def _expected(m: Array, v: Array) -> tuple[Array, Array, Array]:
    """E log(1 + exp a), E σ(a) and E σ'(a) for a ~ N(m, v), to 1e-7.

    From σ(x) ≈ Σ p Φ(t x): with k = t/√(1 + t² v), E σ = Σ p Φ(k m), and its integral and derivative in m.
    """
    soft, mean, rise = np.zeros_like(m), np.zeros_like(m), np.zeros_like(m)
    for t, p in _MIXTURE:
        k = t / np.sqrt(1 + t**2 * v)
        below, density = ndtr(k * m), np.exp(-0.5 * (k * m) ** 2) / math.sqrt(2 * math.pi)
        soft += p * (m * below + density / k)
        mean += p * below
        rise += p * k * density
    return soft, mean, rise


# The local variational bound -----------------------------------------------------------------------------------------


def variational(rows: Rows, prior: Array, xi: Array) -> tuple[Posterior, Array]:
    """The posterior under log σ(z) ≥ log σ(ξ) + (z - ξ)/2 - λ(ξ)(z² - ξ²), and the best ξ for it.

    With λ(ξ) = tanh(ξ/2)/(4ξ) (Jaakkola and Jordan 2000; Bishop 2006, Section 10.6) and r = 2cλ(ξ), the posterior is
    N(H⁻¹b, H⁻¹), b = Σ c (y - ½) m, and the evidence is at least
        ½ (bᵀH⁻¹b + log|diag α| - log|H|) + Σ c (log σ(ξ) - ξ/2 + λ(ξ) ξ²).
    The next ξ² is E a², over weights and features.
    """
    lam = np.where(xi > 1e-6, np.tanh(0.5 * xi) / (4 * np.maximum(xi, 1e-6)), 0.125)
    c = rows.weight
    b = np.zeros(rows.features)
    for part, x, _ in rows.chunks():
        b += (c[part] * (rows.y[part] - 0.5)) @ x
    precision = posterior_precision(rows, prior, 2 * c * lam)
    mean, covariance = precision.solve(b), precision.covariance()
    bound = 0.5 * (float(b @ mean) + float(np.log(prior).sum()) - precision.log_determinant())
    bound += float(c @ (-np.logaddexp(0, -xi) - 0.5 * xi + lam * xi**2))
    better = np.empty_like(xi)
    for part, x, s in rows.chunks():
        a_m, a_s = linear_moments(x, s, mean, covariance)
        better[part] = np.sqrt(a_m**2 + a_s)
    return Posterior(mean, covariance, bound, prior), better


# Precisions of the prior ---------------------------------------------------------------------------------------------


def learnt(rows: Rows, method: str, precision: str | float, max_iter: int, tol: float) -> Posterior:
    """The posterior by `method` ("laplace" or "variational") with a prior that is given, or learnt by evidence.

    A precision is learnt by MacKay's fixed point α = Σ γ/Σ m², γ = 1 - α S_ii, over all features, or for each of them
    ("ard"), until the evidence gains less than `tol` nats.
    """
    information = _information(rows)
    prior = _first_prior(rows, information, precision)
    w, xi, before = np.zeros(rows.features), np.zeros(len(rows.y)), -math.inf
    for iteration in range(1, max_iter + 1):
        if method == "laplace":
            posterior = laplace(rows, prior, w)
            w = posterior.mean
        else:
            posterior, xi = variational(rows, prior, xi)
        fixed = not isinstance(precision, str)
        rounding = _ROUNDING * abs(posterior.log_evidence)
        if (fixed and method == "laplace") or abs(posterior.log_evidence - before) <= max(tol, rounding):
            return posterior._replace(iterations=iteration)
        before = posterior.log_evidence
        if not fixed:
            prior = _next_prior(rows, information, posterior, each=precision == "ard")
    _not_converged(f"The evidence still changes by more than {tol} nats after {max_iter} iterations.")
    return posterior._replace(iterations=max_iter)


def _information(rows: Rows) -> Array:
    """The most that the data can say about each weight, Σ c E x²/4; 1 for a feature that is zero throughout."""
    total = np.zeros(rows.features)
    for part, x, s in rows.chunks():
        total += rows.weight[part] @ (x**2 if s is None else x**2 + s)
    return np.where(total > 0, 0.25 * total, 1.0)[: rows.X.shape[1]]


def _first_prior(rows: Rows, information: Array, precision: str | float) -> Array:
    if isinstance(precision, str):
        scale = 4 * information / rows.weight.sum()  # E x²: then each feature moves the logit by about one
        alpha = scale if precision == "ard" else np.full_like(scale, scale.mean())
    else:
        alpha = np.full_like(information, precision)
    return _with_intercept(rows, alpha)


def _next_prior(rows: Rows, information: Array, posterior: Posterior, each: bool) -> Array:
    count = rows.X.shape[1]
    alpha, mean = posterior.precision[:count], posterior.mean[:count]
    covariance = posterior.covariance
    variance = (np.diagonal(covariance) if covariance.ndim == 2 else covariance)[:count]
    known, square = np.maximum(1 - alpha * variance, 0.0), mean**2  # rounding may leave less than nothing known
    if not each:
        known, square = np.full(count, known.mean()), np.full(count, square.mean())
        information = np.full(count, information.mean())
    low, high = (limit * information for limit in _RANGE)
    ratio = np.divide(known, square, out=high.copy(), where=square > known / high)
    return _with_intercept(rows, np.maximum(ratio, low))


def _with_intercept(rows: Rows, alpha: Array) -> Array:
    return np.append(alpha, INTERCEPT_PRECISION) if rows.intercept else alpha


def _not_converged(message: str) -> None:
    warnings.warn(f"{message} Scale the features alike, or raise max_iter or tol.", ConvergenceWarning, stacklevel=2)
