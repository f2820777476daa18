"""The references, closed forms and quadrature, against each other, mpmath's quadrature and differentiation."""

import numpy as np
import pytest
from mpmath import mp, mpf
from support import closed_forms, reference

pytestmark = pytest.mark.slow  # the references change seldom

POINTS = [(-30.0, 1e4), (-3.0, 0.3), (-0.7, 1e-3), (0.0, 1.0), (0.1, 1e-6), (0.5, 25.0), (4.0, 2.0), (20.0, 400.0)]
M, S = reference.COARSE_M[:, None], reference.COARSE_S[3:]  # s ≥ 1e-8: below, plain differences lose too many digits

NUMPY = {
    "relu": lambda x: np.maximum(x, 0),
    "abs": np.abs,
    "relu6": lambda x: np.clip(x, 0, 6),
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "heaviside": lambda x: np.heaviside(x, 0.5),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "square": np.square,
}
KINKS = {"relu6": (0.0, 6.0), "hardtanh": (-1.0, 1.0)}
MPMATH = {
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "tanh": mp.tanh,
    "erf": mp.erf,
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "gelu": lambda x: x * mp.ncdf(x),
    "relu": lambda x: max(x, mpf(0)),
    "elu": lambda x: x if x > 0 else mp.expm1(x),
}


@pytest.mark.parametrize("name", NUMPY)
def test_quadrature_agrees_with_closed_form(name):
    exact = reference.at(name, M, S)
    mean, variance = reference.expectation(NUMPY[name], M, S, KINKS.get(name, (0.0,)))
    scale = np.abs(exact.mean) + np.sqrt(S)
    assert np.all(np.abs(mean - exact.mean) <= 1e-13 * scale + 1e-15)
    assert np.all(np.abs(variance - exact.variance) <= 1e-10 * exact.variance + 1e-16 * scale**2)


def test_sine_agrees_with_quadrature_where_panels_resolve_it():
    m, s = M, S[S <= 4]
    for name, f in (("sin", np.sin), ("cos", np.cos)):
        exact = reference.at(name, m, s)
        mean, variance = reference.expectation(f, m, s, kinks=range(-45, 46, 3))
        np.testing.assert_allclose(mean, exact.mean, atol=1e-14)
        np.testing.assert_allclose(variance, exact.variance, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("name", MPMATH)
def test_references_agree_with_adaptive_quadrature(name):
    m, s = np.array(POINTS).T
    exact = reference.at(name, m, s)
    spot = np.array([reference.quad_at(MPMATH[name], *point) for point in POINTS])
    np.testing.assert_allclose(exact.mean, spot[:, 0], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(exact.variance, spot[:, 1], rtol=1e-10, atol=1e-25)  # its rule ends at 14 sd


@pytest.mark.parametrize("name", [*reference.SMOOTH, *reference.PIECES, "sin", "cos"])
def test_gradient_identities_agree_with_differences(name):
    m, s = np.array(POINTS).T
    if name == "exp":
        m, s = m / 10, np.minimum(s, 4)
    exact = reference.at(name, m, s)
    for i, scale in ((0, np.sqrt(s)), (1, s)):
        step = 1e-3 * scale
        dm, ds = (step, 0 * step) if i == 0 else (0 * step, step)
        shifts = [reference.at(name, m + k * dm, s + k * ds) for k in (1, -1, 2, -2)]
        for moment in (0, 1):  # five-point formula, error O(step⁴)
            up, down, up2, down2 = (shift[moment] for shift in shifts)
            slope = (8 * (up - down) - (up2 - down2)) / (12 * step)
            size = np.abs(exact[moment]) / scale + np.abs(slope)
            error = np.abs(slope - exact[2 + 2 * moment + i])
            assert np.all(error <= 1e-8 * size + 1e-12 / scale)


def test_small_variance_expansion_meets_quadrature():
    m = reference.COARSE_M[np.abs(reference.COARSE_M) < 8]
    for name in reference.SMOOTH:
        below, above = (reference.smooth(name, m, reference.TAYLOR * f) for f in (1 - 1e-9, 1 + 1e-9))
        np.testing.assert_allclose(below.variance, above.variance, rtol=1e-8)
        np.testing.assert_allclose(below.dvar_dm, above.dvar_dm, rtol=1e-4, atol=1e-6 * reference.TAYLOR)
        np.testing.assert_allclose(below.dvar_ds, above.dvar_ds, rtol=1e-4, atol=1e-6)


def test_exact_softmax_agrees_with_sigmoid_and_dense_quadrature():
    for m, s in (((0.3, -1.2), (0.7, 1.9)), ((2.0, 0.0), (30.0, 70.0)), ((0.0, 1.0), (0.05, 0.05))):
        p = reference.softmax_mean(np.array(m), np.array(s))
        np.testing.assert_allclose(p[0], reference.smooth("sigmoid", m[0] - m[1], sum(s)).mean, rtol=1e-10)
        np.testing.assert_allclose(p.sum(), 1, rtol=1e-10)
    m, s = np.array([0.5, -0.3, 1.0]), np.array([1.0, 2.0, 0.5])
    z, w = np.polynomial.hermite_e.hermegauss(40)
    x = np.stack(np.meshgrid(*(m[:, None] + np.sqrt(s)[:, None] * z), indexing="ij"))
    p = np.exp(x) / np.exp(x).sum(0)
    dense = np.einsum("kabc,a,b,c->k", p, w, w, w) / w.sum() ** 3
    np.testing.assert_allclose(reference.softmax_mean(m, s), dense, rtol=1e-7)


def test_maximum_agrees_with_conditioning_on_one_of_the_two():
    z, w = np.polynomial.legendre.leggauss(120)
    w = 10 * w * np.exp(-50 * z**2) / np.sqrt(2 * np.pi)
    for m1, s1, m2, s2 in ((0.0, 1.0, 0.5, 2.0), (3.0, 4.0, 2.5, 0.1), (-1.0, 0.5, 4.0, 0.01)):
        b = m2 + 10 * np.sqrt(s2) * z
        above = reference.at("relu", m1 - b, np.full_like(b, s1))  # max(a, b) = b + relu(a - b)
        mean = w @ (b + above.mean)
        (exact,) = closed_forms.max2(np.array([[m1, s1, m2, s2]]))
        np.testing.assert_allclose(exact, (mean, w @ (above.variance + (b + above.mean - mean) ** 2)), rtol=1e-10)
