"""Closed forms in 70 digits for the moment maps of Gaussian inputs: the first of the two routes of `reference.py`.

Textbook E f² - (E f)² for every f that is piecewise a sum of x^k e^(jx), for sine and cosine, and for the maximum of
two variables. What cancels in float64 has digits to spare here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from mpmath import mp, mpf

DIGITS = 70
INF = mpf("inf")

Array = np.ndarray
Piece = tuple[mpf, mpf, dict[tuple[int, int], mpf]]  # on (lo, hi): the sum of c x^k e^(jx), keys (k, j)


class Reference(NamedTuple):
    """Exact mean and variance of f(x), x ~ N(m, s), and their partial derivatives; NaN where undefined."""

    mean: Array
    variance: Array
    dmean_dm: Array
    dmean_ds: Array
    dvar_dm: Array
    dvar_ds: Array


def linear_pieces(*points: tuple[float, float], left: float, right: float) -> list[Piece]:
    """The continuous piecewise linear function through `points`, with outer slopes `left` and `right`."""
    xs, ys = [mpf(x) for x, _ in points], [mpf(y) for _, y in points]
    slopes = [(ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i]) for i in range(len(xs) - 1)]
    slopes = [mpf(left), *slopes, mpf(right)]
    knots = [-INF, *xs, INF]
    pieces = []
    for i, slope in enumerate(slopes):
        anchor = max(i - 1, 0)
        pieces.append((knots[i], knots[i + 1], {(0, 0): ys[anchor] - slope * xs[anchor], (1, 0): slope}))
    return pieces


def elu_pieces(alpha: float, scale: float = 1.0) -> list[Piece]:
    a, c = mpf(alpha) * mpf(scale), mpf(scale)
    return [(-INF, mpf(0), {(0, 1): a, (0, 0): -a}), (mpf(0), INF, {(1, 0): c})]


STEP: list[Piece] = [(-INF, mpf(0), {}), (mpf(0), INF, {(0, 0): mpf(1)})]
EXP: list[Piece] = [(-INF, INF, {(0, 1): mpf(1)})]
SQUARE: list[Piece] = [(-INF, INF, {(2, 0): mpf(1)})]


def _derivative(pieces: list[Piece]) -> list[Piece]:
    result = []
    for lo, hi, terms in pieces:
        new: dict[tuple[int, int], mpf] = {}
        for (k, j), c in terms.items():
            if k:
                new[k - 1, j] = new.get((k - 1, j), mpf(0)) + k * c
            if j:
                new[k, j] = new.get((k, j), mpf(0)) + j * c
        result.append((lo, hi, new))
    return result


def _squared(pieces: list[Piece]) -> list[Piece]:
    result = []
    for lo, hi, terms in pieces:
        new: dict[tuple[int, int], mpf] = {}
        for (k1, j1), c1 in terms.items():
            for (k2, j2), c2 in terms.items():
                key = k1 + k2, j1 + j2
                new[key] = new.get(key, mpf(0)) + c1 * c2
        result.append((lo, hi, new))
    return result


def _value(terms: dict[tuple[int, int], mpf], x: mpf) -> mpf:
    return mp.fsum(c * x**k * mp.exp(j * x) for (k, j), c in terms.items())


def _jumps(pieces: list[Piece]) -> list[tuple[mpf, mpf]]:
    """(kink, jump there) for every interior break."""
    return [(kink, _value(right, kink) - _value(left, kink)) for (_, _, left), (kink, _, right) in pairwise(pieces)]


class _Gaussian:
    """Truncated moments E[x^k e^(jx); lo < x < hi] of N(m, s), s > 0, by the textbook recursion."""

    def __init__(self, m: mpf, s: mpf) -> None:
        self.m, self.s, self.sd = m, s, mp.sqrt(s)
        self._norm = self.sd * mp.sqrt(2 * mp.pi)
        self._density: dict = {}
        self._tail: dict = {}
        self._integrals: dict = {}

    def density(self, x: mpf, j: int = 0) -> mpf:
        if mp.isinf(x):
            return mpf(0)
        if (x, j) not in self._density:
            z = (x - self.m - j * self.s) / self.sd
            self._density[x, j] = mp.exp(-z * z / 2) / self._norm
        return self._density[x, j]

    def _tails(self, x: mpf, j: int) -> tuple[mpf, mpf]:
        """P(X < x), P(X > x) for N(m + js, s)."""
        if mp.isinf(x):
            return (mpf(1), mpf(0)) if x > 0 else (mpf(0), mpf(1))
        if (x, j) not in self._tail:
            z = (x - self.m - j * self.s) / self.sd / mp.sqrt(2)
            small = mp.erfc(abs(z)) / 2
            self._tail[x, j] = (small, 1 - small) if z < 0 else (1 - small, small)
        return self._tail[x, j]

    def moment(self, k: int, j: int, lo: mpf, hi: mpf) -> mpf:
        mu, s = self.m + j * self.s, self.s
        integrals = self._integrals.setdefault((j, lo, hi), [])
        if not integrals:
            below, above = self._tails(lo, j), self._tails(hi, j)
            integrals.append(above[0] - below[0] if above[0] < 0.5 else below[1] - above[1])
        n_lo, n_hi = self.density(lo, j), self.density(hi, j)
        for i in range(len(integrals), k + 1):
            edge = (lo ** (i - 1) * n_lo if n_lo else 0) - (hi ** (i - 1) * n_hi if n_hi else 0)
            integrals.append(mu * integrals[-1] + s * edge + ((i - 1) * s * integrals[-2] if i > 1 else 0))
        return integrals[k] * (mp.exp(j * self.m + j * j * s / 2) if j else 1)

    def expect(self, pieces: list[Piece]) -> mpf:
        return mp.fsum(c * self.moment(k, j, lo, hi) for lo, hi, terms in pieces for (k, j), c in terms.items())


def _to_float(x: mpf) -> float:
    try:
        return float(x)
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")


def _point(pieces: list[Piece], m: mpf) -> tuple[mpf, ...]:
    """The limit s → 0 away from the kinks; gradients NaN at a kink, the mean too at a jump."""
    d1, d2 = _derivative(pieces), _derivative(_derivative(pieces))
    at = next(i for i, (_, hi, _) in enumerate(pieces) if m < hi or hi == INF)
    f, f1, f2 = (_value(p[at][2], m) for p in (pieces, d1, d2))
    jumps = [jump for kink, jump in _jumps(pieces) if kink == m]
    if jumps:
        nan = mpf("nan")
        return (nan if jumps[0] else f), mpf(0), nan, nan, nan, nan
    return f, mpf(0), f1, f2 / 2, mpf(0), f1**2


class _Parts(NamedTuple):
    """g, g', g'' piece by piece, and the jumps of g and g' at the kinks."""

    g: list[Piece]
    d1: list[Piece]
    d2: list[Piece]
    jumps: list[tuple[mpf, mpf]]
    jumps1: list[tuple[mpf, mpf]]


def _parts(pieces: list[Piece]) -> _Parts:
    d1 = _derivative(pieces)
    return _Parts(pieces, d1, _derivative(d1), _jumps(pieces), _jumps(d1))


def _piecewise_at(f: _Parts, f_squared: _Parts, m: mpf, s: mpf) -> tuple[mpf, ...]:
    """The six numbers of `Reference` at one point."""
    if s == 0:
        return _point(f.g, m)
    gaussian = _Gaussian(m, s)
    moments = []
    for part in (f, f_squared):
        first, second = gaussian.expect(part.d1), gaussian.expect(part.d2)
        for kink, jump in part.jumps:  # g' holds jump·δ, g'' holds jump·δ' with E δ' = (kink - m)/s density
            first += jump * gaussian.density(kink)
            second += jump * gaussian.density(kink) * (kink - m) / s
        second += mp.fsum(jump * gaussian.density(kink) for kink, jump in part.jumps1)
        moments.append((gaussian.expect(part.g), first, second / 2))
    (e, e_m, e_s), (q, q_m, q_s) = moments
    return e, q - e * e, e_m, e_s, q_m - 2 * e * e_m, q_s - 2 * e * e_s


def _by_formula(formula: Callable[[mpf, mpf], tuple[mpf, ...]], m: Array, s: Array) -> Reference:
    m, s = np.broadcast_arrays(m, s)
    points = zip(m.ravel().tolist(), s.ravel().tolist(), strict=True)
    rows = [[_to_float(x) for x in formula(mpf(a), mpf(b))] for a, b in points]
    return Reference(*np.array(rows).T.reshape(6, *m.shape))


def piecewise(pieces: list[Piece], m: Array, s: Array) -> Reference:
    """Textbook moments of a piecewise f and their gradients over the broadcast of m and s ≥ 0."""
    with mp.workdps(DIGITS):
        f, f_squared = _parts(pieces), _parts(_squared(pieces))
        return _by_formula(lambda m, s: _piecewise_at(f, f_squared, m, s), m, s)


def sine(m: Array, s: Array, shift: float = 0.0) -> Reference:
    """Moments of sin(x + shift·π/2): shift 0 is sin, shift 1 is cos."""

    def formula(m: mpf, s: mpf) -> tuple[mpf, ...]:
        m = m + shift * mp.pi / 2
        d, d4 = mp.exp(-s / 2), mp.exp(-2 * s)
        sin, cos = mp.sin(m), mp.cos(m)
        variance = (1 - d4 * mp.cos(2 * m)) / 2 - (d * sin) ** 2
        dvar_dm = d4 * mp.sin(2 * m) - 2 * d * d * sin * cos
        return d * sin, variance, d * cos, -d * sin / 2, dvar_dm, d4 * mp.cos(2 * m) + d * d * sin**2

    with mp.workdps(DIGITS):
        return _by_formula(formula, m, s)


def max2_at(m1: float, s1: float, m2: float, s2: float) -> tuple[mpf, mpf]:
    """Clark (1961): mean and E z² - (E z)² of the maximum of two independent Gaussians."""
    theta = mp.sqrt(s1 + s2)
    h = (m1 - m2) / theta
    phi, p, q = mp.npdf(h), mp.erfc(-h / mp.sqrt(2)) / 2, mp.erfc(h / mp.sqrt(2)) / 2
    mean = m1 * p + m2 * q + theta * phi
    return mean, (m1**2 + s1) * p + (m2**2 + s2) * q + (m1 + m2) * theta * phi - mean**2


def max2(points: Array, gradients: bool = False) -> Array:
    """Rows (mean, variance) for rows (m1, s1, m2, s2); with gradients, rows of (2, 4) partial derivatives."""
    with mp.workdps(DIGITS):
        rows = []
        for point in points:
            at = [mpf(float(v)) for v in point]
            if not gradients:
                rows.append([_to_float(v) for v in max2_at(*at)])
                continue
            row = []
            for i in range(4):
                step = mpf(10) ** -25 * (abs(at[i]) or 1)
                up, down = ([v + sign * step * (k == i) for k, v in enumerate(at)] for sign in (1, -1))
                row.append([(u - d) / (2 * step) for u, d in zip(max2_at(*up), max2_at(*down), strict=True)])
            rows.append([[_to_float(row[i][out]) for i in range(4)] for out in range(2)])
    return np.array(rows)
