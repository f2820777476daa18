"""What a method predicts for rows: distributions with a density, a score and an interval. Arrays are (rows,)."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Array = NDArray[Any]
Interval = tuple[Array, Array]


class Prediction(Protocol):
    """A distribution of a number for each row."""

    @property
    def mean(self) -> Array: ...

    def log_prob(self, y: Array) -> Array:
        """Log density, or log probability of a count."""

    def crps(self, y: Array) -> Array:
        """∫ (P(Y ≤ t) - 1{y ≤ t})² dt, which is E|Y - y| - ½ E|Y - Y'|."""

    def interval(self, level: float) -> Interval:
        """The central interval."""


class NormalMixture(NamedTuple):
    """Equal parts of N(m, s²); both (members, rows)."""

    m: Array
    s: Array

    @property
    def mean(self) -> Array:
        return np.asarray(self.m.mean(0))

    def log_prob(self, y: Array) -> Array:
        return np.asarray(special.logsumexp(stats.norm.logpdf(y, self.m, self.s), axis=0) - np.log(len(self.m)))

    def crps(self, y: Array) -> Array:
        pairs = _distance(self.m[:, None] - self.m, np.hypot(self.s[:, None], self.s)).mean((0, 1))
        return np.asarray(_distance(y - self.m, self.s).mean(0) - pairs / 2)

    def interval(self, level: float) -> Interval:
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def quantile(self, q: float) -> Array:
        ends = self.m + self.s * stats.norm.ppf(q)
        low, high = ends.min(0), ends.max(0)
        for _ in range(60):  # halves of what the members' own quantiles enclose
            middle = (low + high) / 2
            below = stats.norm.cdf((middle - self.m) / self.s).mean(0) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2)


class LogNormalMixture(NamedTuple):
    """exp of a mixture of normals, which is that of log y."""

    log: NormalMixture

    @property
    def mean(self) -> Array:
        return np.asarray(self._means.mean(0))

    @property
    def _means(self) -> Array:  # of the members; the largest that the type can hold and square
        return np.asarray(np.exp(np.minimum(self.log.m + self.log.s**2 / 2, 350.0)))

    def log_prob(self, y: Array) -> Array:
        return np.asarray(self.log.log_prob(np.log(y)) - np.log(y))

    def crps(self, y: Array) -> Array:
        m, s = self.log
        z = (np.log(y) - m) / s
        first = y * (2 * stats.norm.cdf(z) - 1) + self._means * (1 - 2 * stats.norm.cdf(z - s))
        shift = (m[:, None] - m + s[:, None] ** 2) / np.hypot(s[:, None], s)
        pairs = 2 * (self._means[:, None] * (2 * stats.norm.cdf(shift) - 1)).mean((0, 1))
        return np.asarray(first.mean(0) - pairs / 2)

    def interval(self, level: float) -> Interval:
        low, high = self.log.interval(level)
        return np.asarray(np.exp(low)), np.asarray(np.exp(high))


class Gamma(NamedTuple):
    """Gamma distributions with these means and one shape."""

    means: Array
    shape: float

    @property
    def mean(self) -> Array:
        return self.means

    def log_prob(self, y: Array) -> Array:
        return np.asarray(stats.gamma.logpdf(y, self.shape, scale=self.means / self.shape))

    def crps(self, y: Array) -> Array:
        k, scale = self.shape, self.means / self.shape
        below, weighted = stats.gamma.cdf(y, k, scale=scale), stats.gamma.cdf(y, k + 1, scale=scale)
        spread = self.means * np.exp(-np.log(k) - special.betaln(0.5, k))
        return np.asarray(y * (2 * below - 1) - self.means * (2 * weighted - 1) - spread)

    def interval(self, level: float) -> Interval:
        low, high = (
            stats.gamma.ppf((1 + side * level) / 2, self.shape, scale=self.means / self.shape) for side in (-1, 1)
        )
        return low, high


class Counts(NamedTuple):
    """Equal parts of negative binomials with mean μ and variance μ + α μ²; Poisson where α is 0. (members, rows)."""

    mu: Array
    alpha: Array

    @property
    def mean(self) -> Array:
        return np.asarray(self.mu.mean(0))

    def log_prob(self, y: Array) -> Array:
        return np.asarray(special.logsumexp(count_log_prob(y, self.mu, self.alpha), axis=0) - np.log(len(self.mu)))

    def crps(self, y: Array) -> Array:
        parts = self._chunks(int(y.max()))
        return np.concatenate([((F - (y[rows] <= k)) ** 2).sum(0) for rows, k, F in parts])

    def interval(self, level: float) -> Interval:
        found = [[(q - 1e-12 > F).sum(0) for q in ((1 - level) / 2, (1 + level) / 2)] for _, _, F in self._chunks(0)]
        low, high = (np.concatenate(side).astype(float) for side in zip(*found, strict=True))
        return low, high

    def _chunks(self, least: int) -> list[tuple[Array, Array, Array]]:
        """Rows, the counts from 0 to where nothing is left, and P(Y ≤ k), (counts, rows); some rows at a time."""
        spread = np.sqrt(self.mu + self.alpha * self.mu**2)
        top = int(min(max(least, float((self.mu + 12 * spread).max())) + 10, 20_000))
        k = np.arange(top + 1.0)[:, None]
        parts = np.array_split(np.arange(self.mu.shape[1]), max(1, self.mu.shape[1] * top // 2_000_000))
        return [(rows, k, self._cdf(k, rows)) for rows in parts]

    def _cdf(self, k: Array, rows: Array) -> Array:
        members = zip(self.mu[:, rows], self.alpha[:, rows], strict=True)
        return np.asarray(np.mean([_count_cdf(k, mu, alpha) for mu, alpha in members], 0))


class Residuals(NamedTuple):
    """A centre for each row, and residuals of rows not learnt from, one as likely as the other."""

    centers: Array
    residuals: Array

    @property
    def mean(self) -> Array:
        return np.asarray(self.centers + self.residuals.mean())

    def log_prob(self, y: Array) -> Array:
        return _log_density(y - self.centers, self.residuals)

    def crps(self, y: Array) -> Array:
        return _sample_crps(self.residuals, y - self.centers)

    def interval(self, level: float) -> Interval:
        low, high = np.quantile(self.residuals, [(1 - level) / 2, (1 + level) / 2])
        return np.asarray(self.centers + low), np.asarray(self.centers + high)


class LogResiduals(NamedTuple):
    """The same of log y."""

    log: Residuals

    @property
    def mean(self) -> Array:
        return np.asarray(np.exp(self.log.centers) * np.exp(self.log.residuals).mean())

    def log_prob(self, y: Array) -> Array:
        return np.asarray(self.log.log_prob(np.log(y)) - np.log(y))

    def crps(self, y: Array) -> Array:
        unit = np.exp(self.log.centers)
        return np.asarray(unit * _sample_crps(np.exp(self.log.residuals), y / unit))

    def interval(self, level: float) -> Interval:
        low, high = self.log.interval(level)
        return np.asarray(np.exp(low)), np.asarray(np.exp(high))


def count_log_prob(y: Array, mu: Array, alpha: Array | float) -> Array:
    """log P(Y = y) of a negative binomial, or Poisson, count."""
    n = 1 / np.maximum(alpha, 1e-8)
    ways = special.gammaln(y + n) - special.gammaln(n) - special.gammaln(y + 1)
    found = ways - n * np.log1p(mu / n) + y * (np.log(mu) - np.log(n + mu))
    return np.asarray(np.where(np.asarray(alpha) > 1e-7, found, stats.poisson.logpmf(y, mu)))


def _count_cdf(k: Array, mu: Array, alpha: Array) -> Array:
    n = 1 / np.maximum(alpha, 1e-8)
    return np.asarray(np.where(alpha > 1e-7, special.betainc(n, k + 1, n / (n + mu)), stats.poisson.cdf(k, mu)))


def _distance(d: Array, r: Array) -> Array:
    """E|X| of X ~ N(d, r²)."""
    return np.asarray(d * (2 * stats.norm.cdf(d / r) - 1) + 2 * r * stats.norm.pdf(d / r))


def _log_density(e: Array, residuals: Array) -> Array:
    """Of a kernel estimate, Silverman's width, with a hundredth of a wide normal: one far row shall not cost all."""
    r = np.quantile(residuals, (np.arange(2000) + 0.5) / 2000) if len(residuals) > 2000 else residuals
    quartiles = float(np.subtract(*np.quantile(residuals, [0.75, 0.25]))) / 1.349
    spread = min(float(residuals.std()), quartiles or np.inf)
    width = max(0.9 * spread * len(residuals) ** -0.2, 1e-9 * max(1.0, float(np.abs(residuals).max())))
    near = [
        special.logsumexp(stats.norm.logpdf(part[:, None], r, width), axis=1)
        for part in np.array_split(e, max(1, len(e) // 500))
    ]
    wide = stats.norm.logpdf(e, residuals.mean(), 3 * residuals.std() + 1e-12)
    return np.asarray(np.logaddexp(np.concatenate(near) + np.log(0.99 / len(r)), wide + np.log(0.01)))


def _sample_crps(sample: Array, e: Array) -> Array:
    """Of the empirical distribution of a sample, in n log n."""
    x, n = np.sort(sample), len(sample)
    pairs = 2 * np.sum(x * (2 * np.arange(1, n + 1) - n - 1)) / n**2
    total, below = np.concatenate([[0.0], np.cumsum(x)]), np.searchsorted(x, e)
    first = (e * below - total[below] + (total[-1] - total[below]) - e * (n - below)) / n
    return np.asarray(first - pairs / 2)
