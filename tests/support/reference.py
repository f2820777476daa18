"""References for the moment maps of Gaussian inputs: float64 results, no code shared with the package.

Two independent routes, checked against each other in `test_reference.py`:

* `closed_forms.py`: textbook E f² - (E f)² in 70-digit arithmetic, for f that have closed forms;
* `smooth`, here: composite Gauss-Legendre on panels that follow both the Gaussian and f, variance centred.

The gradients come from the identities (distributional derivatives: jumps of f and f' at the kinks count)
    d mean/dm = E f',  d mean/ds = E f''/2,  d var/dm = 2 Cov(f, f'),  d var/ds = E f'² + Cov(f, f'').
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from mpmath import mp, mpf
from scipy.special import erfc, expit, ndtr

from support.closed_forms import EXP, SQUARE, STEP, Array, Reference, elu_pieces, linear_pieces, piecewise, sine

# --- quadrature for any f -----------------------------------------------------------------------------------

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
REACH = 13.0  # standard deviations; the mass beyond is 1e-38
GROWTH = np.array([0, 1, 2, 3, 4, 6, 9, 13, 20, 30, 45, 70, 100, 150, 225, 350, 500, 750, 1100, 1700, 3000.0])


def _panels(m: Array, s: Array, kinks: Sequence[float], unit: float) -> tuple[Array, Array]:
    """Offsets from m and weights (without the density) of a composite rule, shape (points, nodes)."""
    radii = unit * np.concatenate((-GROWTH[:0:-1], GROWTH))
    of_f = np.concatenate([kink + radii for kink in kinks]) - m[:, None]
    sd = np.sqrt(s)[:, None]
    of_gaussian = sd * np.linspace(-REACH, REACH, 14)
    edges = np.sort(np.clip(np.concatenate((of_f, of_gaussian), 1), -REACH * sd, REACH * sd), 1)
    half, middle = np.diff(edges)[..., None] / 2, (edges[:, 1:] + edges[:, :-1])[..., None] / 2
    offsets, weights = middle + half * NODES, half * WEIGHTS
    return offsets.reshape(len(m), -1), weights.reshape(len(m), -1)


def _rule(m: Array, s: Array, kinks: Sequence[float], unit: float) -> tuple[Array, Array]:
    """Nodes x and weights that integrate against N(m, s), s > 0, shape (points, nodes)."""
    offsets, weights = _panels(m, s, kinks, unit)
    density = np.exp(-0.5 * offsets**2 / s[:, None]) / np.sqrt(2 * np.pi * s)[:, None]
    return m[:, None] + offsets, weights * density


def expectation(f: Callable[[Array], Array], m: Array, s: Array, kinks: Sequence[float] = (0.0,), unit: float = 2.0):
    """(mean, centred variance) of f(x), x ~ N(m, s), s > 0, for any f with the given kinks."""
    m, s = np.broadcast_arrays(np.asarray(m, float), np.asarray(s, float))
    x, w = _rule(m.ravel(), s.ravel(), kinks, unit)
    values = f(x)
    mean = (w * values).sum(1)
    variance = (w * (values - mean[:, None]) ** 2).sum(1)
    return mean.reshape(m.shape), variance.reshape(m.shape)


class Smooth(NamedTuple):
    """f and its first three derivatives; `tail(x, right)` = f(x) - limit(right) keeps digits where f saturates."""

    tail: Callable[[Array, Array], Array]
    d1: Callable[[Array], Array]
    d2: Callable[[Array], Array]
    d3: Callable[[Array], Array]
    limit: Callable[[Array], Array] = np.zeros_like
    unit: float = 2.0


def _bell(x: Array) -> Array:
    return expit(x) * expit(-x)  # σ'


def _phi(x: Array) -> Array:
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


def _bell1(x: Array) -> Array:
    return -_bell(x) * np.tanh(x / 2)  # σ''


def _bell2(x: Array) -> Array:
    return _bell(x) * (1 - 6 * _bell(x))  # σ'''


SMOOTH = {
    "sigmoid": Smooth(
        lambda x, right: np.where(right, -expit(-x), expit(x)),
        _bell,
        _bell1,
        _bell2,
        lambda right: np.where(right, 1.0, 0.0),
    ),
    "tanh": Smooth(
        lambda x, right: np.where(right, -2 * expit(-2 * x), 2 * expit(2 * x)),
        lambda x: 4 * _bell(2 * x),
        lambda x: 8 * _bell1(2 * x),
        lambda x: 16 * _bell2(2 * x),
        lambda right: np.where(right, 1.0, -1.0),
        unit=1.0,
    ),
    "erf": Smooth(
        lambda x, right: np.where(right, -erfc(x), erfc(-x)),
        lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x),
        lambda x: -4 / np.sqrt(np.pi) * x * np.exp(-x * x),
        lambda x: 4 / np.sqrt(np.pi) * (2 * x * x - 1) * np.exp(-x * x),
        lambda right: np.where(right, 1.0, -1.0),
        unit=0.7,
    ),
    "softplus": Smooth(lambda x, right: np.logaddexp(0, x), expit, _bell, _bell1),
    "silu": Smooth(
        lambda x, right: x * expit(x),
        lambda x: expit(x) + x * _bell(x),
        lambda x: 2 * _bell(x) + x * _bell1(x),
        lambda x: 3 * _bell1(x) + x * _bell2(x),
    ),
    "gelu": Smooth(
        lambda x, right: x * ndtr(x),
        lambda x: ndtr(x) + x * _phi(x),
        lambda x: (2 - x * x) * _phi(x),
        lambda x: (x * x - 4) * x * _phi(x),
        unit=1.0,
    ),
}
TAYLOR = 1e-8  # below this s the variance is its own expansion; the next term is O(s²) relative


def smooth(name: str, m: Array, s: Array) -> Reference:
    """Mean, variance and gradients of a smooth f by quadrature, over the broadcast of m and s ≥ 0."""
    f = SMOOTH[name]
    m, s = np.broadcast_arrays(np.asarray(m, float), np.asarray(s, float))
    shape, m, s = m.shape, m.ravel(), s.ravel()
    right = m > 0
    x, w = _rule(m, np.maximum(s, 1e-30), (0.0,), f.unit)
    values, f1, f2 = f.tail(x, right[:, None]), f.d1(x), f.d2(x)

    def mean(y: Array) -> Array:
        return (w * y).sum(1)

    e, e1, e2 = mean(values), mean(f1), mean(f2)
    values -= e[:, None]
    variance, cov1, cov2 = mean(values**2), mean(values * (f1 - e1[:, None])), mean(values * (f2 - e2[:, None]))
    g1, g2, g3 = f.d1(m), f.d2(m), f.d3(m)
    small = s < TAYLOR
    variance = np.where(small, s * g1**2 + s**2 * (g1 * g3 + 0.5 * g2**2), variance)
    cov1, cov2 = np.where(small, s * g1 * g2, cov1), np.where(small, s * g1 * g3, cov2)
    point = s == 0
    e = np.where(point, f.tail(m, right), e) + f.limit(right)
    e1, e2 = np.where(point, g1, e1), np.where(point, g2, e2)
    square1 = np.where(point, g1**2, mean(f1**2))
    result = (e, variance, e1, e2 / 2, 2 * cov1, square1 + cov2)
    return Reference(*(y.reshape(shape) for y in result))


def quad_at(f: Callable[[mpf], mpf], m: float, s: float, kinks: Sequence[float] = (0.0,)) -> tuple[float, float]:
    """(mean, variance) by mpmath's adaptive quadrature: slow, for spot checks."""
    with mp.workdps(30):
        m, s = mpf(m), mpf(s)
        sd = mp.sqrt(s)
        scale = [k + r for k in kinks for r in (-100, -30, -10, -3, 0, 3, 10, 30, 100)]
        edges = sorted({m + sd * z for z in (-14, -6, -2, 0, 2, 6, 14)} | {mpf(x) for x in scale})
        edges = [x for x in edges if abs(x - m) <= 14 * sd]
        mean = mp.quad(lambda x: f(x) * mp.npdf(x, m, sd), edges)
        return float(mean), float(mp.quad(lambda x: (f(x) - mean) ** 2 * mp.npdf(x, m, sd), edges))


# --- softmax ------------------------------------------------------------------------------------------------


def softmax_mean(m: Array, s: Array) -> Array:
    """E softmax(x), x_k ~ N(m_k, s_k) independent, s_k > 0, by the Gumbel-max identity.

    softmax_k is the chance that x_k plus standard Gumbel noise is the largest, so with
    F_k(t) = E exp(-e^(x_k - t)):  E softmax_k = ∫ F_k'(t) Π_{j≠k} F_j(t) dt. Both integrals by the trapezoid rule.
    """
    sd = np.sqrt(s)
    step = min(0.25, 0.4 * sd.min())
    x = np.arange((m - 9 * sd).min(), (m + 9 * sd).max() + step, step)
    t_step = 0.2
    t = np.arange(x[0] - 5, x[-1] + 38, t_step)
    density = step * np.exp(-0.5 * ((x[:, None] - m) / sd) ** 2) / (np.sqrt(2 * np.pi) * sd)
    lift = np.exp(np.clip(x - t[:, None], -700, 6.7))
    kernel = np.exp(-lift)
    below, slope = kernel @ density, (lift * kernel) @ density
    log_below = np.log(np.maximum(below, 1e-300))
    return t_step * (slope * np.exp(log_below.sum(1, keepdims=True) - log_below)).sum(0)


# --- the grid and its tables --------------------------------------------------------------------------------

_POSITIVE_M = [1e-8, 1e-5, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7]
_POSITIVE_M += [8, 9.5, 11, 13, 16, 20, 25, 30]
GRID_M = np.float32([-x for x in reversed(_POSITIVE_M)] + [0] + _POSITIVE_M).astype(float)  # 61 values
GRID_S = np.float32(sorted([0, 0.12, 0.5, 0.8, 2, 25, *np.logspace(-12, 4, 33)])).astype(
    float
)  # 39, switches of the maps included
COARSE_M, COARSE_S = GRID_M[::3], GRID_S[[0, 1, 5, 9, 13, 17, 21, 24, 26, 29, 31, 32, 33, 34, 36, 38]]

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
PIECES = {
    "relu": linear_pieces((0, 0), left=0, right=1),
    "leaky_relu": linear_pieces((0, 0), left=0.125, right=1),
    "abs": linear_pieces((0, 0), left=-1, right=1),
    "relu6": linear_pieces((0, 0), (6, 6), left=0, right=0),
    "hardtanh": linear_pieces((-1, -1), (1, 1), left=0, right=0),
    "clamp": linear_pieces((-0.5, -0.5), (2, 2), left=0, right=0),
    "heaviside": STEP,
    "elu": elu_pieces(1.0),
    "elu_half": elu_pieces(0.5),
    "selu": elu_pieces(SELU_ALPHA, SELU_SCALE),
    "exp": EXP,
    "square": SQUARE,
}


def at(name: str, m: Array, s: Array) -> Reference:
    """Reference of a named activation over the broadcast of m and s."""
    if name in SMOOTH:
        return smooth(name, m, s)
    if name in ("sin", "cos"):
        return sine(m, s, shift=float(name == "cos"))
    return piecewise(PIECES[name], m, s)


@cache
def table(name: str) -> Reference:
    """`at` on the grid GRID_M × GRID_S, computed once a session."""
    return at(name, GRID_M[:, None], GRID_S)
